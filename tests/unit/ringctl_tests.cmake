# ringctl: the text that people write and read, without gRPC.
if(TARGET ringctl_text)
  ringswitch_unit_test(ringctl_test
    SOURCES ringctl_pcapng_test.cc ringctl_fdb_lines_test.cc ringctl_quantities_test.cc ringctl_text_test.cc
    LIBRARIES ringctl_text)
endif()
