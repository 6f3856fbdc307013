// The five moments of which the world is told. The linker puts these functions between the callers and the
// product's functions (--wrap, CMakeLists.txt); what is called is the product's own, unchanged.

#include "dataplane/bridge/fdb.h"
#include "dataplane/bridge/pipeline.h"
#include "tests/sim/world.h"

using ringswitch::bridge::Decision;
using ringswitch::bridge::DropReason;
using ringswitch::bridge::Fdb;
using ringswitch::bridge::FdbKey;
using ringswitch::bridge::LearnResult;
using ringswitch::bridge::Pipeline;
using ringswitch::bridge::PortIndex;
using ringswitch::sim::World;

// Member functions are called like functions whose first argument is the object, and a reference is passed
// as a pointer (Itanium C++ ABI, 3.1).
extern "C" {

// Pipeline::Process
const Decision* __real__ZN10ringswitch6bridge8Pipeline7ProcessEtPKhjj(Pipeline*, PortIndex, const uint8_t*,
                                                                      uint32_t, uint32_t);
const Decision* __wrap__ZN10ringswitch6bridge8Pipeline7ProcessEtPKhjj(Pipeline* self, PortIndex ingress,
                                                                      const uint8_t* frame, uint32_t length,
                                                                      uint32_t wire_length) {
  const Decision* const decision =
      __real__ZN10ringswitch6bridge8Pipeline7ProcessEtPKhjj(self, ingress, frame, length, wire_length);
  World::current()->OnProcessed(ingress, frame, length, wire_length, *decision);
  return decision;
}

// Pipeline::DropReceived
void __real__ZN10ringswitch6bridge8Pipeline12DropReceivedEtjNS0_10DropReasonE(Pipeline*, PortIndex, uint32_t,
                                                                              DropReason);
void __wrap__ZN10ringswitch6bridge8Pipeline12DropReceivedEtjNS0_10DropReasonE(Pipeline* self,
                                                                              PortIndex ingress,
                                                                              uint32_t length,
                                                                              DropReason reason) {
  __real__ZN10ringswitch6bridge8Pipeline12DropReceivedEtjNS0_10DropReasonE(self, ingress, length, reason);
  World::current()->OnDropped(ingress, length, reason);
}

// Fdb::Learn
LearnResult __real__ZN10ringswitch6bridge3Fdb5LearnENS0_6FdbKeyEtjj(Fdb*, FdbKey, PortIndex, uint32_t,
                                                                    uint32_t);
LearnResult __wrap__ZN10ringswitch6bridge3Fdb5LearnENS0_6FdbKeyEtjj(Fdb* self, FdbKey key, PortIndex port,
                                                                    uint32_t mac_limit, uint32_t now_s) {
  const LearnResult result =
      __real__ZN10ringswitch6bridge3Fdb5LearnENS0_6FdbKeyEtjj(self, key, port, mac_limit, now_s);
  World::current()->OnLearn(result);
  return result;
}

// Fdb::AgeSlice
void __real__ZN10ringswitch6bridge3Fdb8AgeSliceEjjj(Fdb*, uint32_t, uint32_t, uint32_t);
void __wrap__ZN10ringswitch6bridge3Fdb8AgeSliceEjjj(Fdb* self, uint32_t now_s, uint32_t ageing_time_s,
                                                    uint32_t slots) {
  __real__ZN10ringswitch6bridge3Fdb8AgeSliceEjjj(self, now_s, ageing_time_s, slots);
  World::current()->OnAged(*self, now_s, ageing_time_s);
}

// Dataplane::State::Publish
void __real__ZN10ringswitch9Dataplane5State7PublishEv(void*);
void __wrap__ZN10ringswitch9Dataplane5State7PublishEv(void* self) {
  World::current()->OnPublish();
  __real__ZN10ringswitch9Dataplane5State7PublishEv(self);
}

}  // extern "C"
