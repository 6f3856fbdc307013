# The watch hub, against a switch model that the test defines and with the build's sanitizer.
ringswitch_unit_test(watch_test
  SOURCES
    agent_watch_hub_test.cc
    watch_fakes.cc
    ${CMAKE_SOURCE_DIR}/server/agent/control_error.cc
    ${CMAKE_SOURCE_DIR}/server/agent/watch_hub.cc
    ${CMAKE_SOURCE_DIR}/server/agent/watch_journal.cc
    ${CMAKE_SOURCE_DIR}/server/agent/watch_listing.cc
  LIBRARIES ringswitch_bridge absl::status absl::statusor absl::strings)
