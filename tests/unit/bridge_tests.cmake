ringswitch_unit_test(bridge_test
  SOURCES
    bridge_epoch_test.cc
    bridge_fdb_concurrency_test.cc
    bridge_fdb_test.cc
    bridge_forwarding_table_test.cc
    bridge_frame_test.cc
    bridge_testbed.cc
    bridge_vlan_table_test.cc
  LIBRARIES ringswitch_bridge)
