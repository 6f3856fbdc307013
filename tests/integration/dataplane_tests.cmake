add_library(dataplane_testbed STATIC testbed.cc)
target_link_libraries(dataplane_testbed PUBLIC ringswitch_dataplane GTest::gtest)

foreach(name IN ITEMS control forwarding lifecycle load netdev)
  ringswitch_integration_test(dataplane_${name}_test
    SOURCES dataplane_${name}_test.cc
    LIBRARIES dataplane_testbed)
endforeach()

# The frame tables of the unit tests, on devices.
ringswitch_integration_test(dataplane_table_test
  SOURCES dataplane_table_test.cc
  LIBRARIES dataplane_testbed bridge_tables)

# Beside the kernel's own bridge: what comes out, not how memory is used.
if(NOT RINGSWITCH_SANITIZED)
  ringswitch_integration_test(dataplane_kernel_test
    SOURCES dataplane_kernel_test.cc kernel_peer.cc
    LIBRARIES dataplane_testbed)
endif()

# Beside what the kernel says of a frame's virtio-net header. One thread: nothing to race with.
if(NOT RINGSWITCH_TSAN)
  ringswitch_integration_test(virtio_net_verdict_test
    SOURCES virtio_net_verdict_test.cc
    LIBRARIES dataplane_testbed)
endif()
