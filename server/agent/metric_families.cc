#include "server/agent/metric_families.h"

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/agent/version.h"

namespace ringswitch::agent {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr char kFrameHelp[] = " A GSO super-frame is one frame.";
constexpr char kByteHelp[] =
    " Bytes of the Ethernet frame: header and tag yes, FCS and virtio-net header no. A GSO super-frame "
    "counts with its full length.";

class Family {
 public:
  Family(std::vector<MetricFamily>* families, std::string name, std::string help, MetricType type)
      : families_(families) {
    family_.name = std::move(name);
    family_.help = std::move(help);
    family_.type = type;
  }
  ~Family() {
    if (!family_.metric.empty()) families_->push_back(std::move(family_));
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  void Add(Labels labels, double value) {
    ClientMetric& metric = family_.metric.emplace_back();
    metric.label = std::move(labels);
    if (family_.type == MetricType::Counter) {
      metric.counter.value = value;
    } else {
      metric.gauge.value = value;
    }
  }

  // `buckets`: how many fell in each; the last one has no bound.
  void AddHistogram(Labels labels, const std::vector<double>& bounds, const std::vector<uint64_t>& buckets,
                    double sum) {
    ClientMetric& metric = family_.metric.emplace_back();
    metric.label = std::move(labels);
    uint64_t count = 0;
    for (size_t i = 0; i < buckets.size(); ++i) {
      count += buckets[i];
      double bound = i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity();
      metric.histogram.bucket.push_back({count, bound});
    }
    metric.histogram.sample_count = count;
    metric.histogram.sample_sum = sum;
  }

 private:
  std::vector<MetricFamily>* families_;
  MetricFamily family_;
};

// A counter of PortTotals, by port and as the switch's total.
struct TotalsCounter {
  const char* name;  // without prefix
  const char* help;
  uint64_t bridge::PortTotals::*value;
  bool is_bytes;
};

constexpr TotalsCounter kTotalsCounters[] = {
    {"receive_frames_total", "Frames that the switch received, dropped ones included.",
     &bridge::PortTotals::receive_frames, false},
    {"receive_bytes_total", "Bytes of frames that the switch received, dropped ones included.",
     &bridge::PortTotals::receive_bytes, true},
    {"transmit_frames_total", "Frames that the switch transmitted, a flooded one once per port.",
     &bridge::PortTotals::transmit_frames, false},
    {"transmit_bytes_total", "Bytes of frames that the switch transmitted.",
     &bridge::PortTotals::transmit_bytes, true},
    {"forwarded_frames_total", "Frames received and sent on to at least one port.",
     &bridge::PortTotals::forwarded_frames, false},
    {"not_learned_frames_total",
     "Frames forwarded although their source was not learned: the port's limit or the switch's capacity was "
     "reached.",
     &bridge::PortTotals::not_learned_frames, false},
    {"receive_no_buffer_events_total",
     "Reads that ended because the buffer pool was empty; no frame is lost by it.",
     &bridge::PortTotals::receive_no_buffer_events, false},
};

struct FloodClass {
  const char* label;
  uint64_t bridge::PortTotals::*value;
};

constexpr FloodClass kFloodClasses[] = {
    {"broadcast", &bridge::PortTotals::flooded_broadcast_frames},
    {"multicast", &bridge::PortTotals::flooded_multicast_frames},
    {"unknown_unicast", &bridge::PortTotals::flooded_unknown_unicast_frames},
};

Labels With(Labels labels, const char* name, std::string value) {
  labels.push_back({name, std::move(value)});
  return labels;
}

struct StateName {
  PortState state;
  const char* label;
};

constexpr StateName kStateNames[] = {
    {PortState::kUp, "up"},
    {PortState::kDown, "down"},
    {PortState::kMissing, "missing"},
    {PortState::kBlocked, "blocked"},
};

// One object with counters: a port, or a switch with those of all its ports.
struct Counted {
  Labels labels;
  const bridge::PortTotals* totals;
};

// `prefix`: "ringswitch_port_" or "ringswitch_switch_"; `flood_prefix` and the drops of ports are without
// "port_".
void AddTotals(std::vector<MetricFamily>* families, const std::vector<Counted>& rows,
               const std::string& prefix, const std::string& event_prefix, const std::string& where) {
  for (const TotalsCounter& counter : kTotalsCounters) {
    Family family(families, absl::StrCat(prefix, counter.name),
                  absl::StrCat(counter.help, where, counter.is_bytes ? kByteHelp : kFrameHelp),
                  MetricType::Counter);
    for (const Counted& row : rows) family.Add(row.labels, static_cast<double>(row.totals->*counter.value));
  }
  {
    Family family(families, absl::StrCat(event_prefix, "flooded_frames_total"),
                  absl::StrCat("Frames received and flooded, each once, by class.", where, kFrameHelp),
                  MetricType::Counter);
    for (const Counted& row : rows) {
      for (const FloodClass& flood : kFloodClasses) {
        family.Add(With(row.labels, "class", flood.label), static_cast<double>(row.totals->*flood.value));
      }
    }
  }
  {
    Family family(families, absl::StrCat(event_prefix, "flood_copies_total"),
                  absl::StrCat("Copies of flooded frames, one per egress port.", where, kFrameHelp),
                  MetricType::Counter);
    for (const Counted& row : rows) family.Add(row.labels, static_cast<double>(row.totals->flood_copies));
  }
  Family family(families, absl::StrCat(event_prefix, "dropped_frames_total"),
                absl::StrCat("Frames (at ingress) or copies (at egress) dropped, by reason; reasons without "
                             "a drop are left out.",
                             where, kFrameHelp),
                MetricType::Counter);
  for (const Counted& row : rows) {
    for (size_t i = 0; i < bridge::kDropReasonCount; ++i) {
      if (row.totals->drops[i] == 0) continue;
      family.Add(With(row.labels, "reason", std::string(bridge::kDropReasonTexts[i].label)),
                 static_cast<double>(row.totals->drops[i]));
    }
  }
}

void AddPorts(std::vector<MetricFamily>* families, const std::vector<PortView>& ports) {
  std::vector<Counted> rows;
  rows.reserve(ports.size());
  for (const PortView& port : ports) {
    rows.push_back({{{"switch", port.spec.switch_name}, {"port", port.spec.name}}, &port.totals});
  }
  AddTotals(families, rows, "ringswitch_port_", "ringswitch_",
            " By port, from the switch's side: receive is what the pod sent.");
  Family info(families, "ringswitch_port_info", "Joins a port to its pod and interface; always 1.",
              MetricType::Gauge);
  Family up(families, "ringswitch_port_up",
            "1 while the port forwards, 0 while it is down, missing or blocked.", MetricType::Gauge);
  Family state(families, "ringswitch_port_state",
               "1 for the state that the port is in, 0 for the others: up, down, missing or blocked.",
               MetricType::Gauge);
  Family lost(
      families, "ringswitch_port_device_lost_frames_total",
      "Frames that were lost because the receive queue of the port's packet socket was full; netdev and "
      "veth ports only. By port, beside received ones.",
      MetricType::Counter);
  Family fdb(families, "ringswitch_port_fdb_dynamic_entries", "FDB entries learned on the port.",
             MetricType::Gauge);
  for (size_t i = 0; i < ports.size(); ++i) {
    const PortSpec& spec = ports[i].spec;
    info.Add({{"switch", spec.switch_name},
              {"port", spec.name},
              {"namespace", spec.pod.namespace_name},
              {"pod", spec.pod.name},
              {"container", spec.pod.container_id},
              {"ifname", spec.device.link.ifname}},
             1);
    up.Add(rows[i].labels, ports[i].state == PortState::kUp ? 1 : 0);
    for (const StateName& name : kStateNames) {
      state.Add(With(rows[i].labels, "state", name.label), ports[i].state == name.state ? 1 : 0);
    }
    if (spec.device.kind != DeviceRef::Kind::kTap)
      lost.Add(rows[i].labels, static_cast<double>(ports[i].device_lost_frames));
    fdb.Add(rows[i].labels, ports[i].fdb_dynamic_count);
  }
}

void AddFdb(std::vector<MetricFamily>* families, const std::vector<SwitchView>& switches) {
  Family entries(families, "ringswitch_fdb_entries", "FDB entries of the switch, by kind.",
                 MetricType::Gauge);
  Family capacity(families, "ringswitch_fdb_capacity", "Most FDB entries of the switch, all kinds together.",
                  MetricType::Gauge);
  Family events(families, "ringswitch_fdb_events_total",
                "What became of dynamic FDB entries: learned, moved to another port, aged out, flushed, or "
                "limited (not entered).",
                MetricType::Counter);
  for (const SwitchView& view : switches) {
    Labels labels = {{"switch", view.spec.name}};
    entries.Add(With(labels, "kind", "dynamic"), view.fdb_dynamic_count);
    entries.Add(With(labels, "kind", "static"), view.fdb_static_count);
    capacity.Add(labels, view.spec.fdb_capacity);
    events.Add(With(labels, "kind", "learned"), static_cast<double>(view.fdb_events.learned));
    events.Add(With(labels, "kind", "moved"), static_cast<double>(view.fdb_events.moved));
    events.Add(With(labels, "kind", "aged"), static_cast<double>(view.fdb_events.aged));
    events.Add(With(labels, "kind", "flushed"), static_cast<double>(view.fdb_events.flushed));
    events.Add(With(labels, "kind", "limited"), static_cast<double>(view.fdb_events.limited));
  }
}

void AddMoves(std::vector<MetricFamily>* families, const std::vector<SwitchView>& switches) {
  Family moves(
      families, "ringswitch_fdb_moves_total",
      "Moves of addresses from one port to another, by pair of ports; pairs without any are left out.",
      MetricType::Counter);
  Family held(families, "ringswitch_fdb_held_addresses_total",
              "Times that the flap guard has held an address that moved too often.", MetricType::Counter);
  for (const SwitchView& view : switches) {
    Labels labels = {{"switch", view.spec.name}};
    for (const PortMovesView& row : view.moves) {
      moves.Add(With(With(labels, "from_port", row.from_port), "to_port", row.to_port),
                static_cast<double>(row.moves));
    }
    held.Add(labels, static_cast<double>(view.fdb_events.held));
  }
}

struct VlanCounter {
  const char* name;
  const char* help;
  uint64_t VlanTotals::*value;
  bool is_bytes;
};

constexpr VlanCounter kVlanCounters[] = {
    {"ringswitch_vlan_receive_frames_total", "Frames received that passed ingress filtering.",
     &VlanTotals::receive_frames, false},
    {"ringswitch_vlan_receive_bytes_total", "Bytes of frames received that passed ingress filtering.",
     &VlanTotals::receive_bytes, true},
    {"ringswitch_vlan_transmit_frames_total", "Copies of frames queued for transmission.",
     &VlanTotals::transmit_frames, false},
    {"ringswitch_vlan_transmit_bytes_total", "Bytes of copies of frames queued for transmission.",
     &VlanTotals::transmit_bytes, true},
};

struct VlanRow {
  std::string switch_name;
  VlanTotals totals;
};

void AddVlans(std::vector<MetricFamily>* families, const std::vector<VlanRow>& rows) {
  for (const VlanCounter& counter : kVlanCounters) {
    Family family(families, counter.name,
                  absl::StrCat(counter.help, " By VLAN, on switches with vlan_counters.",
                               counter.is_bytes ? kByteHelp : kFrameHelp),
                  MetricType::Counter);
    for (const VlanRow& row : rows) {
      family.Add({{"switch", row.switch_name}, {"vid", absl::StrCat(row.totals.vid)}},
                 static_cast<double>(row.totals.*counter.value));
    }
  }
}

void AddSwitches(std::vector<MetricFamily>* families, const std::vector<SwitchView>& switches) {
  std::vector<Counted> rows;
  rows.reserve(switches.size());
  for (const SwitchView& view : switches) rows.push_back({{{"switch", view.spec.name}}, &view.totals});
  AddTotals(families, rows, "ringswitch_switch_", "ringswitch_switch_",
            " Of all ports of the switch, now and before.");
  AddFdb(families, switches);
  AddMoves(families, switches);
  Family ports(families, "ringswitch_ports", "Ports of the switch.", MetricType::Gauge);
  for (const SwitchView& view : switches) ports.Add({{"switch", view.spec.name}}, view.port_count);
}

void AddWorkers(std::vector<MetricFamily>* families, const std::vector<WorkerStats>& workers) {
  Family busy(families, "ringswitch_worker_busy_seconds_total",
              "Time that the worker spent on frames, in seconds.", MetricType::Counter);
  Family batches(families, "ringswitch_worker_batches_total",
                 "Batches of completions that the worker processed.", MetricType::Counter);
  Family empty(families, "ringswitch_worker_no_buffer_events_total",
               "Times that the worker's buffer pool ran out.", MetricType::Counter);
  Family buffers(families, "ringswitch_worker_buffers", "Frame buffers of the worker's pool.",
                 MetricType::Gauge);
  Family held(families, "ringswitch_worker_held_buffers", "Frame buffers neither free nor in the kernel.",
              MetricType::Gauge);
  Family sizes(families, "ringswitch_worker_batch_frames", "Frames received per batch.",
               MetricType::Histogram);
  for (size_t i = 0; i < workers.size(); ++i) {
    const WorkerStats& stats = workers[i];
    Labels labels = {{"worker", absl::StrCat(i)}};
    busy.Add(labels, stats.busy_seconds);
    batches.Add(labels, static_cast<double>(stats.batches));
    empty.Add(labels, static_cast<double>(stats.no_buffer_events));
    buffers.Add(labels, stats.buffers);
    held.Add(labels, stats.buffers_held);
    sizes.AddHistogram(labels, {1, 2, 4, 8, 16, 32, 64, 128},
                       {std::begin(stats.batch_size_buckets), std::end(stats.batch_size_buckets)},
                       static_cast<double>(stats.frames));
  }
}

void AddCni(std::vector<MetricFamily>* families, const CniTotals& totals) {
  Family requests(families, "ringswitch_cni_requests_total",
                  "Attachment calls of the CNI plugin that ended, by verb and gRPC code.",
                  MetricType::Counter);
  for (const auto& [key, count] : totals.by_code) {
    requests.Add({{"verb", kCniVerbNames[static_cast<size_t>(key.first)]}, {"code", key.second}},
                 static_cast<double>(count));
  }
  Family durations(families, "ringswitch_cni_request_duration_seconds",
                   "Time that attachment calls took within the agent, in seconds.", MetricType::Histogram);
  for (size_t verb = 0; verb < totals.durations.size(); ++verb) {
    const CniDurations& row = totals.durations[verb];
    durations.AddHistogram({{"verb", kCniVerbNames[verb]}},
                           {kCniDurationBounds.begin(), kCniDurationBounds.end()},
                           {row.buckets.begin(), row.buckets.end()}, row.sum_seconds);
  }
}

}  // namespace

std::vector<MetricFamily> MetricFamilies::Collect() const {
  std::vector<MetricFamily> families;
  PortFilter filter;
  filter.rows_max = std::numeric_limits<size_t>::max();
  AddPorts(&families, model_->ListPorts(filter).rows);
  const std::vector<SwitchView> switches = model_->ListSwitches("", std::numeric_limits<size_t>::max()).rows;
  AddSwitches(&families, switches);
  std::vector<VlanRow> vlans;
  for (const SwitchView& view : switches) {
    if (!view.spec.vlan_counters) continue;
    for (const VlanTotals& totals : model_->ReadVlans(view.spec.name))
      vlans.push_back({view.spec.name, totals});
  }
  AddVlans(&families, vlans);
  AddWorkers(&families, dataplane_->ReadWorkers());
  AddCni(&families, requests_->Read());
  Family build(&families, "ringswitch_build_info", "Version of the agent; always 1.", MetricType::Gauge);
  build.Add({{"version", kVersion}}, 1);
  return families;
}

}  // namespace ringswitch::agent
