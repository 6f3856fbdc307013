foreach(name IN ITEMS forwarding lifecycle load)
  ringswitch_integration_test(dataplane_${name}_test
    SOURCES
      dataplane_${name}_test.cc
      testbed.cc
    LIBRARIES ringswitch_dataplane)
endforeach()
