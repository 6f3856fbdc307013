// traffic: makes and judges the load of the system tests and of the benchmark; one small program, one job per
// call.
//
//   traffic send      numbered raw frames out of an interface, as fast as asked
//   traffic receive   counts numbered frames per stream and says whether any swapped places
//   traffic echo      UDP echo            traffic ping     UDP round trips
//   traffic sink      TCP receiver        traffic source   TCP sender
//
// Run inside a pod's network namespace; `send` can also offer the same to several at once (--namespaces).
// Every job is bounded by --seconds or --count and prints one JSON object. A receiver prints the line "ready"
// first, so that its sender need not guess, and ends early on SIGTERM, still printing.
//
// A numbered frame: Ethernet header, EtherType 0x88b5 (IEEE 802, local experimental), stream (4 bytes),
// number (8 bytes).

#include "tests/bench/traffic.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace traffic {

volatile sig_atomic_t stop_requested = 0;

[[noreturn]] void Die(const std::string& what) {
  fprintf(stderr, "traffic: %s: %s\n", what.c_str(), strerror(errno));
  exit(1);
}

namespace {

constexpr uint16_t kEtherType = 0x88b5;
constexpr size_t kNumberedFrameMin = ETH_HLEN + 12;
constexpr int kBatchFrames = 64;

std::array<uint8_t, ETH_ALEN> ParseMac(const std::string& text) {
  std::array<uint8_t, ETH_ALEN> mac{};
  if (sscanf(text.c_str(), "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
             &mac[5]) != 6) {
    errno = EINVAL;
    Die("MAC address " + text);
  }
  return mac;
}

// `protocol` 0 makes a socket that only sends: nothing is queued on it.
int OpenPacketSocket(const std::string& ifname, uint16_t protocol) {
  int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    Die("packet socket");
  }
  int bytes = 256 << 20;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
  setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
  int on = 1;
  setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on));
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(protocol);
  address.sll_ifindex = static_cast<int>(if_nametoindex(ifname.c_str()));
  if (address.sll_ifindex == 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    Die("interface " + ifname);
  }
  return fd;
}

// A batch of frames that differ in their number and, with --source-count, in the last three bytes of their
// source.
class FrameBatch {
 public:
  explicit FrameBatch(const Options& options) : source_count_(options.source_count) {
    const auto destination = ParseMac(options.destination);
    const auto source = ParseMac(options.source);
    for (int i = 0; i < kBatchFrames; ++i) {
      frames_[i].assign(std::max<size_t>(options.length, kNumberedFrameMin), 0);
      memcpy(frames_[i].data(), destination.data(), ETH_ALEN);
      memcpy(frames_[i].data() + ETH_ALEN, source.data(), ETH_ALEN);
      const uint16_t type = htons(kEtherType);
      memcpy(frames_[i].data() + 12, &type, sizeof(type));
      const uint32_t stream = htonl(options.stream);
      memcpy(frames_[i].data() + ETH_HLEN, &stream, sizeof(stream));
      vectors_[i] = {frames_[i].data(), frames_[i].size()};
      messages_[i] = {};
      messages_[i].msg_hdr.msg_iov = &vectors_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
    }
  }

  FrameBatch(const FrameBatch&) = delete;  // its messages point into it
  FrameBatch& operator=(const FrameBatch&) = delete;

  // Sends up to `count` frames from `number` on; returns how many the kernel took.
  uint64_t Send(int fd, uint64_t number, uint64_t count) {
    const int batch = static_cast<int>(std::min<uint64_t>(count, kBatchFrames));
    for (int i = 0; i < batch; ++i) {
      Number(frames_[i].data(), number + static_cast<uint64_t>(i));
    }
    const int sent = sendmmsg(fd, messages_.data(), static_cast<unsigned>(batch), 0);
    if (sent < 0) {
      if (errno != ENOBUFS && errno != EAGAIN && errno != EINTR && errno != ENETDOWN) {
        Die("sendmmsg");
      }
      failures_ += 1;
      std::this_thread::yield();
      return 0;
    }
    return static_cast<uint64_t>(sent);
  }

  uint64_t failures() const { return failures_; }

 private:
  void Number(uint8_t* frame, uint64_t number) const {
    const uint64_t number_be = htobe64(number);
    memcpy(frame + ETH_HLEN + 4, &number_be, sizeof(number_be));
    if (source_count_ > 1) {
      const uint64_t source = number % source_count_;
      frame[9] = static_cast<uint8_t>(source >> 16);
      frame[10] = static_cast<uint8_t>(source >> 8);
      frame[11] = static_cast<uint8_t>(source);
    }
  }

  const uint32_t source_count_;
  std::array<std::vector<uint8_t>, kBatchFrames> frames_;
  std::array<iovec, kBatchFrames> vectors_{};
  std::array<mmsghdr, kBatchFrames> messages_{};
  uint64_t failures_ = 0;
};

void EnterNamespace(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, CLONE_NEWNET) != 0) {
    Die("network namespace " + path);
  }
  close(fd);
}

std::string InterfaceMac(int fd, const std::string& ifname) {
  ifreq request{};
  snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", ifname.c_str());
  if (ioctl(fd, SIOCGIFHWADDR, &request) != 0) {
    Die("MAC address of " + ifname);
  }
  const auto* mac = reinterpret_cast<const uint8_t*>(request.ifr_hwaddr.sa_data);
  char text[18];
  snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
           mac[5]);
  return text;
}

struct Sender {
  Sender(int socket, const Options& options) : fd(socket), batch(options) {}
  int fd;
  FrameBatch batch;
  uint64_t sent = 0;
};

// One in this namespace, or one in each of --namespaces, with its interface's MAC address and the next
// stream.
std::deque<Sender> OpenSenders(Options options) {
  std::deque<Sender> senders;
  for (const std::string& path : options.namespaces) {
    EnterNamespace(path);
    const int fd = OpenPacketSocket(options.ifname, 0);
    options.source = InterfaceMac(fd, options.ifname);
    senders.emplace_back(fd, options);
    options.stream += 1;
  }
  if (senders.empty()) {
    senders.emplace_back(OpenPacketSocket(options.ifname, 0), options);
  }
  return senders;
}

// Senders take turns, a batch each, so that all of them offer the same whatever the scheduler does.
int Send(const Options& options) {
  std::deque<Sender> senders = OpenSenders(options);
  const auto start = Clock::now();
  double elapsed = 0;
  bool done = false;
  while (stop_requested == 0 && !done && elapsed < options.seconds) {
    bool idle = true;
    done = true;
    for (Sender& sender : senders) {
      uint64_t allowed = options.count == 0 ? UINT64_MAX : options.count - sender.sent;
      done = done && allowed == 0;
      if (options.rate > 0) {
        const auto due = static_cast<uint64_t>(elapsed * options.rate) + 1;
        allowed = std::min(allowed, due - std::min(due, sender.sent));
      }
      if (allowed > 0) {
        sender.sent += sender.batch.Send(sender.fd, sender.sent, allowed);
        idle = false;
      }
    }
    if (idle && !done) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    elapsed = SecondsSince(start);
  }
  uint64_t sent = 0;
  uint64_t refusals = 0;
  for (const Sender& sender : senders) {
    sent += sender.sent;
    refusals += sender.batch.failures();
  }
  printf("{\"sent\": %lu, \"refusals\": %lu, \"seconds\": %.6f}\n", sent, refusals, elapsed);
  return 0;
}

struct Stream {
  uint64_t frames = 0;
  uint64_t first = 0;
  uint64_t last = 0;
  uint64_t swaps = 0;
  uint64_t duplicates = 0;
  uint64_t wrong_length = 0;
};

// Judges one frame. Numbers must increase strictly within a stream; gaps are loss, not disorder.
void Judge(const Options& options, const uint8_t* frame, size_t length, std::map<uint32_t, Stream>* streams) {
  if (length < kNumberedFrameMin || frame[12] != kEtherType >> 8 || frame[13] != (kEtherType & 0xff)) {
    return;
  }
  uint32_t id = 0;
  uint64_t number = 0;
  memcpy(&id, frame + ETH_HLEN, sizeof(id));
  memcpy(&number, frame + ETH_HLEN + 4, sizeof(number));
  number = be64toh(number);
  Stream& stream = (*streams)[ntohl(id)];
  if (stream.frames == 0) {
    stream.first = number;
  } else if (number == stream.last) {
    stream.duplicates += 1;
  } else if (number < stream.last) {
    stream.swaps += 1;
  }
  stream.wrong_length += options.length != 0 && length != options.length;
  stream.last = std::max(stream.last, number);
  stream.frames += 1;
}

void PrintStreams(const std::map<uint32_t, Stream>& streams, uint32_t overflows, double seconds) {
  printf("{\"seconds\": %.6f, \"receiver_overflows\": %u, \"streams\": {", seconds, overflows);
  const char* separator = "";
  for (const auto& [id, stream] : streams) {
    printf(
        "%s\"%u\": {\"frames\": %lu, \"first\": %lu, \"last\": %lu, \"missing\": %ld, \"swaps\": %lu, "
        "\"duplicates\": %lu, \"wrong_length\": %lu}",
        separator, id, stream.frames, stream.first, stream.last,
        static_cast<int64_t>(stream.last - stream.first + 1 - stream.frames), stream.swaps, stream.duplicates,
        stream.wrong_length);
    separator = ", ";
  }
  printf("}}\n");
}

int Receive(const Options& options) {
  const int fd = OpenPacketSocket(options.ifname, ETH_P_ALL);
  std::vector<std::array<uint8_t, 2048>> buffers(kBatchFrames);
  std::array<iovec, kBatchFrames> vectors{};
  std::array<mmsghdr, kBatchFrames> messages{};
  for (int i = 0; i < kBatchFrames; ++i) {
    vectors[i] = {buffers[i].data(), buffers[i].size()};
    messages[i].msg_hdr.msg_iov = &vectors[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  SayReady();
  std::map<uint32_t, Stream> streams;
  const auto start = Clock::now();
  auto last_frame = start;
  while (stop_requested == 0 && SecondsSince(start) < options.seconds) {
    if (options.idle_seconds > 0 && !streams.empty() && SecondsSince(last_frame) > options.idle_seconds) {
      break;
    }
    pollfd readable{fd, POLLIN, 0};
    if (poll(&readable, 1, 20) <= 0) {
      continue;
    }
    const int received = recvmmsg(fd, messages.data(), kBatchFrames, MSG_DONTWAIT | MSG_TRUNC, nullptr);
    for (int i = 0; i < received; ++i) {
      Judge(options, buffers[i].data(), messages[i].msg_len, &streams);
    }
    last_frame = Clock::now();
  }
  tpacket_stats statistics{};
  socklen_t statistics_size = sizeof(statistics);
  getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &statistics, &statistics_size);
  PrintStreams(streams, statistics.tp_drops, SecondsSince(start));
  return 0;
}

void AddOptions(CLI::App* app, Options* options) {
  app->add_option("--ifname", options->ifname, "interface of this namespace");
  app->add_option("--namespaces", options->namespaces,
                  "send: the same from the interface of each of these, paths with commas between")
      ->delimiter(',');
  app->add_option("--source", options->source, "source MAC address");
  app->add_option("--source-count", options->source_count, "use that many source addresses in turn");
  app->add_option("--destination", options->destination, "destination MAC address");
  app->add_option("--stream", options->stream, "stream that the numbers belong to");
  app->add_option("--length", options->length, "bytes of a frame without FCS, or of a datagram");
  app->add_option("--count", options->count, "end after that many; 0: no such end");
  app->add_option("--rate", options->rate, "frames per second; 0: as fast as it goes");
  app->add_option("--seconds", options->seconds, "end after that time in any case")
      ->check(CLI::Range(0.01, 86400.0));
  app->add_option("--idle", options->idle_seconds, "receive: end when nothing came for that time");
  app->add_option("--host", options->host, "IP address to connect or bind to");
  app->add_option("--port", options->port, "UDP or TCP port");
}

}  // namespace
}  // namespace traffic

int main(int argc, char** argv) {
  using namespace traffic;
  struct sigaction action = {};
  action.sa_handler = [](int) { stop_requested = 1; };
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);

  CLI::App app("Load for the system tests and the benchmark.");
  app.require_subcommand(1);
  Options options;
  int (*job)(const Options&) = nullptr;
  struct Job {
    const char* name;
    const char* text;
    int (*run)(const Options&);
  };
  for (const Job& entry :
       {Job{"send", "numbered raw frames", Send}, Job{"receive", "judges numbered raw frames", Receive},
        Job{"echo", "UDP echo", Echo}, Job{"ping", "UDP round trips", Ping},
        Job{"sink", "TCP receiver", Sink}, Job{"source", "TCP sender", Source}}) {
    CLI::App* command = app.add_subcommand(entry.name, entry.text);
    AddOptions(command, &options);
    command->callback([&job, run = entry.run] { job = run; });
  }
  CLI11_PARSE(app, argc, argv);
  return job(options);
}
