#pragma once

// The world around one switch: pods that send, an operator who changes things, devices that fail; and the
// judge of what the switch makes of it.
//
// Theory of operation. The world owns a Dataplane with its real workers, on a simulated kernel, and an
// Oracle. Actions (script.h) are drawn and carried out by the control thread; since that may happen whenever
// a worker calls the kernel, frames are under way when a configuration changes.
//
// What is compared with what is exact, because the world is told of five moments (joints.cc):
//   * a frame is processed: the oracle gets it then, under the configuration and with the time that this
//     worker took up at the beginning of its batch, which is when it last looked at the clock;
//   * a configuration is published;
//   * addresses are learned (or not, for want of room) and aged: the oracle's table follows, having checked
//     that what happened was allowed;
//   * a frame is dropped before it was processed.
// Calls of the control side that flush or bind take effect before they return, without a turn in between.
//
// A frame's copies are compared, byte for byte and in order, when the worker writes them to the device.
// Receive counters are compared after every action; at rest everything is: counters, both ledgers, tables,
// buffers, and that nobody has gone deaf.
//
// Ownership: whoever holds the baton.

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/bridge/pipeline.h"
#include "dataplane/dataplane.h"
#include "tests/sim/baton.h"
#include "tests/sim/offload.h"
#include "tests/sim/oracle.h"
#include "tests/sim/random.h"
#include "tests/sim/script.h"
#include "tests/sim/simulated_kernel.h"

namespace ringswitch::sim {

inline constexpr int kPorts = 10;  // at a time
inline constexpr int kSwitches = 2;

class World : public KernelListener {
 public:
  // `start`: an action of that kind. `plants_fault`: the oracle is wrong in one point.
  World(const Action& start, bool plants_fault);
  ~World() override;

  static World* current();
  static Action DrawStart(Random* random);
  Action Draw(Random* random) const;
  void Run(const Action& action);
  void Finish();                               // to rest, then the switch ends
  uint64_t digest() const { return digest_; }  // of all that has happened
  uint64_t frames() const { return frames_; }  // processed
  uint64_t copies() const { return copies_; }  // written

  // From the kernel.
  void OnDelivery(int worker, const Delivery& delivery) override;
  void OnReadError(uint16_t slot, int error) override;
  int OnWrite(int worker, uint16_t slot, int fd, const uint8_t* data, size_t size) override;

  // From the joints.
  void OnPublish();
  void OnLearn(bridge::LearnResult result);
  void OnProcessed(int ingress, const uint8_t* frame, uint32_t length, uint32_t wire_length,
                   const bridge::Decision& decision);
  void OnDropped(int ingress, uint32_t length, DropReason reason);
  void OnAged(const bridge::Fdb& fdb, uint32_t now_s, uint32_t ageing_time_s);

 private:
  struct Copy {  // that is to be written
    Bytes bytes;
    Bytes completed;  // the same with its checksum completed, where that may be; empty: it may not
  };
  struct Port {  // as the kernel and the dataplane have it
    int fd = -1;
    bool may_lack_file = false;  // some workers may have none, or another
    bool takes_offload = true;
    bool is_packet = false;
    int64_t stumbled_ns = INT64_MIN / 2;  // last error of a read that ends the reading for a while
    bool reads_again = true;              // not after an error that ends it for good
  };
  struct WorkerView {
    std::shared_ptr<const OracleConfig> config;
    int64_t now_ns = 0;
    std::deque<Delivery> deliveries;
    std::map<int, std::deque<Copy>> copies;  // by port
    size_t copy_count = 0;
  };

  int worker() const { return baton_.current() - 1; }
  WorkerView& view() { return views_[static_cast<size_t>(worker())]; }
  void OnClock();
  void Note(uint64_t word) { digest_ = (digest_ ^ word) * 0x100'0000'01b3ULL; }

  // Actions.
  void Apply(const Action& action);
  void SendFrame(const Action& action);
  Bytes MakeFrame(const Action& action, uint64_t number) const;
  void AddPort(const Action& action);
  void RemovePort(int port);
  void UpdatePort(int port, uint64_t detail);
  void Detach(int port);
  void Attach(const Action& action);
  void UpdateSwitch(const Action& action);
  void AddStatic(const Action& action);
  void RemoveEntry(const Action& action);
  void Flush(const Action& action);
  bool HasPort(uint64_t port) const { return config_->ports.count(static_cast<int>(port)) != 0; }
  bool HasDevice(uint64_t port) const { return HasPort(port) && ports_.at(static_cast<int>(port)).fd >= 0; }
  void Prepare(const OracleConfig& next) { next_ = std::make_shared<const OracleConfig>(next); }
  Device OpenDevice(Port* port, bool is_packet, bool takes_offload);
  template <typename Matches>
  uint32_t Forget(int index, Matches matches);

  // Judging.
  void ExpectCopies(uint32_t length, const Offload& offload, const std::map<int, Bytes>& outputs);
  void CheckIngress(int port);
  void Settle(bool ticks);
  void CheckRest(bool has_ticked);
  void CheckCounters();
  void CheckTable(int index, bool has_ticked);
  void CheckHearing(int64_t since_ns);

  const uint32_t workers_, buffers_;
  Baton baton_;
  SimulatedKernel kernel_;
  std::unique_ptr<Dataplane> dataplane_;
  Oracle oracle_;
  std::shared_ptr<const OracleConfig> config_;  // published
  std::shared_ptr<const OracleConfig> next_;    // about to be
  std::map<int, Port> ports_;
  std::array<bridge::PortTotals, kSwitches> retired_;
  std::array<WorkerView, bridge::kWorkersMax> views_;
  std::optional<bridge::LearnResult> learned_;
  uint64_t number_ = 0;  // of the last frame
  uint64_t frames_ = 0, copies_ = 0;
  uint64_t digest_ = 0xcbf2'9ce4'8422'2325ULL;
};

}  // namespace ringswitch::sim
