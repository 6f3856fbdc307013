# The watch hub, against a switch model that the test defines: no other is linked.
ringswitch_unit_test(watch_test
  SOURCES
    agent_watch_hub_test.cc
    watch_fakes.cc
    ${CMAKE_SOURCE_DIR}/server/agent/control_error.cc
  LIBRARIES ringswitch_watch ringswitch_bridge)
