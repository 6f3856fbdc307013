ringswitch_unit_test(bridge_test
  SOURCES
    bridge_epoch_test.cc
    bridge_fdb_concurrency_test.cc
    bridge_fdb_history_test.cc
    bridge_fdb_test.cc
    bridge_forwarding_table_test.cc
    bridge_frame_test.cc
    bridge_guard_test.cc
    bridge_mac_flood_test.cc
    bridge_meter_test.cc
    bridge_port_table_test.cc
    bridge_sequence_test.cc
    bridge_testbed.cc
    bridge_vlan_matrix_test.cc
    bridge_vlan_table_test.cc
  LIBRARIES ringswitch_bridge)
