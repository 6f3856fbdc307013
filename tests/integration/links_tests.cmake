if(TARGET ringswitch_links)
  ringswitch_integration_test(links_test
    SOURCES
      link_watch_netdev_test.cc
      link_watch_test.cc
      links_netdev_test.cc
      links_test.cc
      links_testbed.cc
      links_veth_test.cc
    LIBRARIES ringswitch_links)
endif()
