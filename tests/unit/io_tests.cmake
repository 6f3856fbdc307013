ringswitch_unit_test(io_test
  SOURCES
    io_buffer_pool_test.cc
    io_ring_test.cc
    io_segmentation_test.cc
    io_virtio_net_header_test.cc
  LIBRARIES ringswitch_io)
