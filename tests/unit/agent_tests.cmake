# Agent: the switch model, its verification, the state store and the control socket, on fakes: these take the place of the
# dataplane when the test is linked.
add_library(agent_on_fakes OBJECT agent_fakes.cc ${CMAKE_SOURCE_DIR}/server/agent/ip_address.cc)
target_link_libraries(agent_on_fakes PUBLIC ringswitch_model ringswitch_bridge)
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
if(TARGET ringswitch_codecs)
  ringswitch_unit_test(agent_codec_test
    SOURCES agent_codec_test.cc
    LIBRARIES agent_on_fakes ringswitch_codecs)
endif()
