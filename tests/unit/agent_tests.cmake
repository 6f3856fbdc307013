# Agent: the switch model, its verification, the state store and the control socket, on fakes. The sources are
# compiled here, against a fake dataplane and with the build's sanitizer, which the agent's own libraries are not.
find_package(spdlog REQUIRED)
find_path(NLOHMANN_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
set(AGENT_ROOM ${CMAKE_SOURCE_DIR}/server/agent)
ringswitch_unit_test(agent_test
  SOURCES
    agent_control_socket_test.cc
    agent_delete_spool_test.cc
    agent_fakes.cc
    agent_restart_test.cc
    agent_state_store_test.cc
    agent_switch_model_test.cc
    agent_text_file_test.cc
    agent_verification_test.cc
    ${AGENT_ROOM}/attachments.cc
    ${AGENT_ROOM}/control_error.cc
    ${AGENT_ROOM}/control_socket.cc
    ${AGENT_ROOM}/delete_spool.cc
    ${AGENT_ROOM}/ip_address.cc
    ${AGENT_ROOM}/page_token.cc
    ${AGENT_ROOM}/state_json.cc
    ${AGENT_ROOM}/state_store.cc
    ${AGENT_ROOM}/switch_model.cc
    ${AGENT_ROOM}/switch_model_fdb.cc
    ${AGENT_ROOM}/switch_model_ports.cc
    ${AGENT_ROOM}/switch_model_restore.cc
    ${AGENT_ROOM}/text_file.cc
    ${AGENT_ROOM}/verification.cc
  LIBRARIES ringswitch_bridge absl::status absl::statusor absl::strings spdlog::spdlog)
target_include_directories(agent_test SYSTEM PRIVATE ${NLOHMANN_JSON_INCLUDE})
