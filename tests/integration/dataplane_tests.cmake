foreach(name IN ITEMS control forwarding lifecycle load netdev)
  ringswitch_integration_test(dataplane_${name}_test
    SOURCES
      dataplane_${name}_test.cc
      testbed.cc
    LIBRARIES ringswitch_dataplane)
endforeach()

# The frame tables of the unit tests, on devices.
ringswitch_integration_test(dataplane_table_test
  SOURCES
    dataplane_table_test.cc
    testbed.cc
  LIBRARIES ringswitch_dataplane bridge_tables)
