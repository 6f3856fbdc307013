#include "server/agent/metrics_server.h"

#include <fcntl.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dataplane/file.h"

namespace ringswitch::agent {
namespace {

constexpr int kBacklog = 64;
// Each may hold an answer of its own, which is megabytes with thousands of ports. More wait in the backlog.
constexpr unsigned kConnectionsMax = 16;
constexpr unsigned kSilenceMaxSeconds = 5;
constexpr size_t kConnectionMemoryMax = 16 << 10;  // request and headers

constexpr char kMetricsType[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kPlainType[] = "text/plain; charset=utf-8";

absl::Status Error(const char* text) {
  return absl::UnavailableError(text);
}

absl::Status BindError(int error) {
  if (error == EADDRINUSE) return Error("the address is in use");
  if (error == EADDRNOTAVAIL) return Error("not an address of this machine");
  return Error(std::strerror(error));
}

absl::StatusOr<File> Bind(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int code = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (code != 0) return Error(gai_strerror(code));
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> result(found, &freeaddrinfo);
  File listener(socket(result->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.is_open()) return Error(std::strerror(errno));
  // Connections of an agent that ended linger for a minute and would keep the address from the next one.
  int on = 1;
  setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener.fd(), result->ai_addr, result->ai_addrlen) != 0) return BindError(errno);
  if (listen(listener.fd(), kBacklog) != 0) return BindError(errno);
  return listener;
}

uint16_t BoundPort(int fd) {
  sockaddr_in6 address{};  // the port is where sockaddr_in has it
  socklen_t size = sizeof(address);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);
}

bool IsSameFile(int left, int right) {
  struct stat a {};
  struct stat b {};
  return fstat(left, &a) == 0 && fstat(right, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

MHD_Result Answer(MHD_Connection* connection, unsigned code, const std::string& text, const char* type) {
  // The library declares the buffer writable, but copies it.
  MHD_Response* response =
      MHD_create_response_from_buffer(text.size(), const_cast<char*>(text.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;  // closes the connection
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  MHD_Result result = MHD_queue_response(connection, code, response);
  MHD_destroy_response(response);
  return result;
}

MHD_Result Handle(void* closure, MHD_Connection* connection, const char* url, const char* method, const char*,
                  const char*, size_t*, void**) {
  std::string_view path = url;
  std::string_view verb = method;
  if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD)
    return Answer(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD only\n", kPlainType);
  if (path == "/metrics") {
    auto* families = static_cast<const prometheus::Collectable*>(closure);
    std::string text = prometheus::TextSerializer().Serialize(families->Collect());
    return Answer(connection, MHD_HTTP_OK, text, kMetricsType);
  }
  if (path == "/") return Answer(connection, MHD_HTTP_OK, "ringswitchd: see /metrics\n", kPlainType);
  return Answer(connection, MHD_HTTP_NOT_FOUND, "not found: see /metrics\n", kPlainType);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Listen(
    const std::string& address, std::shared_ptr<const prometheus::Collectable> families) {
  size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  bool is_v6 = host.front() == '[';
  absl::StatusOr<File> listener =
      Bind(is_v6 ? host.substr(1, host.size() - 2) : host, address.substr(colon + 1));
  if (!listener.ok()) return listener.status();
  std::unique_ptr<MetricsServer> server(new MetricsServer(std::move(families)));
  server->address_ = absl::StrCat(host, ":", BoundPort(listener->fd()));
  // The library gets a copy, which it closes at its end. Where it cannot start it does so or not, by the
  // cause, and a copy left open would keep the address: ours tells which it was.
  int copy = fcntl(listener->fd(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return Error(std::strerror(errno));
  server->daemon_ = MHD_start_daemon(
      MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC, 0, nullptr, nullptr, &Handle,
      const_cast<prometheus::Collectable*>(server->families_.get()), MHD_OPTION_LISTEN_SOCKET, copy,
      MHD_OPTION_CONNECTION_LIMIT, kConnectionsMax, MHD_OPTION_CONNECTION_TIMEOUT, kSilenceMaxSeconds,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionMemoryMax, MHD_OPTION_END);
  if (server->daemon_ == nullptr) {
    if (IsSameFile(copy, listener->fd())) close(copy);
    return Error("the web server does not start: no thread or no file is left");
  }
  return server;
}

MetricsServer::~MetricsServer() {
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

}  // namespace ringswitch::agent
