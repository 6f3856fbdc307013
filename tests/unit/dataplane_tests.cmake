ringswitch_unit_test(dataplane_test
  SOURCES dataplane_limits_test.cc
  LIBRARIES ringswitch_dataplane)
