foreach(name IN ITEMS control forwarding lifecycle load netdev)
  ringswitch_integration_test(dataplane_${name}_test
    SOURCES
      dataplane_${name}_test.cc
      testbed.cc
    LIBRARIES ringswitch_dataplane)
endforeach()
