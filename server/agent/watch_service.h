#pragma once

// ringswitch.v1.WatchService: decodes, hands the stream to the hub, encodes what it sends.
//
// Theory of operation. gRPC's callback API: a stream holds no thread. Messages are begun and the call is
// finished by the hub's thread alone; gRPC's threads only report to the hub, so a stream needs no lock.
//
// The end. Streams whose client reads are finished as soon as WatchHub::EndAll asks for it; one whose message
// waits for its client is finished when the server's shutdown cancels it. Where a client that does not read
// has let the socket's own buffer run full, gRPC reports nothing until that client goes: the process ends
// without it. The hub must outlive the server.

#include "ringswitch/v1/watch.grpc.pb.h"
#include "server/agent/watch_hub.h"

namespace ringswitch::agent {

class WatchService final : public v1::WatchService::CallbackService {
 public:
  explicit WatchService(WatchHub* hub) : hub_(hub) {}

  grpc::ServerWriteReactor<v1::WatchResponse>* Watch(grpc::CallbackServerContext* context,
                                                     const v1::WatchRequest* request) override;

 private:
  WatchHub* const hub_;
};

}  // namespace ringswitch::agent
