ringswitch_unit_test(capture_test
  SOURCES capture_test.cc
  LIBRARIES ringswitch_capture)
