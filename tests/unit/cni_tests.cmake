# The CNI plugin: parsing and printing, and whole calls against an agent and an IPAM plugin that are fakes.
if(TARGET ringswitch_cni)
  find_package(Protobuf REQUIRED)
  find_package(gRPC REQUIRED)
  ringswitch_unit_test(cni_test
    SOURCES cni_config_test.cc cni_result_test.cc cni_spool_test.cc cni_plugin_test.cc
    LIBRARIES ringswitch_cni gRPC::grpc++ protobuf::libprotobuf absl::strings absl::status absl::statusor absl::time)
endif()
