# The frame tables and their test bed; the integration tests run the same rows on devices.
add_library(bridge_tables STATIC
  bridge_forwarding_table.cc
  bridge_guard_table.cc
  bridge_port_table.cc
  bridge_testbed.cc
  bridge_vlan_matrix.cc
  bridge_vlan_table.cc)
target_link_libraries(bridge_tables PUBLIC ringswitch_bridge GTest::gmock)

ringswitch_unit_test(bridge_test
  SOURCES
    bridge_epoch_test.cc
    bridge_fdb_concurrency_test.cc
    bridge_fdb_history_test.cc
    bridge_fdb_test.cc
    bridge_forwarding_test.cc
    bridge_frame_test.cc
    bridge_guard_test.cc
    bridge_mac_flood_test.cc
    bridge_meter_test.cc
    bridge_sequence_test.cc
    bridge_table_test.cc
    bridge_vlan_test.cc
  LIBRARIES bridge_tables)
