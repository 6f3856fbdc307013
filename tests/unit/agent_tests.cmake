# Agent: the switch model, its verification, the state store and the control socket, on fakes. The sources are
# compiled here, against a fake dataplane and with the build's sanitizer, which the agent's own libraries are not.
find_package(spdlog REQUIRED)
find_path(NLOHMANN_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
set(AGENT_ROOM ${CMAKE_SOURCE_DIR}/server/agent)
add_library(agent_on_fakes OBJECT
  agent_fakes.cc
  ${AGENT_ROOM}/attachments.cc
  ${AGENT_ROOM}/control_error.cc
  ${AGENT_ROOM}/control_socket.cc
  ${AGENT_ROOM}/delete_spool.cc
  ${AGENT_ROOM}/field_checks.cc
  ${AGENT_ROOM}/ip_address.cc
  ${AGENT_ROOM}/page_token.cc
  ${AGENT_ROOM}/port_attributes.cc
  ${AGENT_ROOM}/port_config.cc
  ${AGENT_ROOM}/state_json.cc
  ${AGENT_ROOM}/state_store.cc
  ${AGENT_ROOM}/switch_model.cc
  ${AGENT_ROOM}/switch_model_devices.cc
  ${AGENT_ROOM}/switch_model_events.cc
  ${AGENT_ROOM}/switch_model_fdb.cc
  ${AGENT_ROOM}/switch_model_fdb_bulk.cc
  ${AGENT_ROOM}/switch_model_ports.cc
  ${AGENT_ROOM}/switch_model_restore.cc
  ${AGENT_ROOM}/switch_model_trial.cc
  ${AGENT_ROOM}/switch_model_watch.cc
  ${AGENT_ROOM}/text_file.cc
  ${AGENT_ROOM}/verification.cc)
target_include_directories(agent_on_fakes SYSTEM PUBLIC ${NLOHMANN_JSON_INCLUDE})
target_link_libraries(agent_on_fakes PUBLIC
  ringswitch_bridge absl::status absl::statusor absl::strings spdlog::spdlog Threads::Threads)
ringswitch_unit_test(agent_test
  SOURCES
    agent_control_socket_test.cc
    agent_delete_spool_test.cc
    agent_fdb_test.cc
    agent_observer_test.cc
    agent_port_attributes_test.cc
    agent_port_device_test.cc
    agent_port_trial_test.cc
    agent_restart_test.cc
    agent_state_store_test.cc
    agent_switch_model_test.cc
    agent_text_file_test.cc
    agent_verification_test.cc
  LIBRARIES agent_on_fakes)

# What needs generated protobuf code, or is no part of what the sanitizers look at.
if(NOT RINGSWITCH_SANITIZED)
  find_package(Protobuf REQUIRED)
  find_package(prometheus-cpp REQUIRED)
  ringswitch_unit_test(agent_codec_test
    SOURCES
      agent_codec_test.cc
      ${AGENT_ROOM}/metric_families.cc
      ${AGENT_ROOM}/port_codec.cc
      ${AGENT_ROOM}/proto_codec.cc
    LIBRARIES agent_on_fakes ringswitch_proto protobuf::libprotobuf prometheus-cpp::core)
  target_compile_definitions(agent_codec_test PRIVATE RINGSWITCH_VERSION="test")
endif()
