#include "server/agent/watch_service.h"

#include "absl/strings/str_cat.h"
#include "server/agent/control_error.h"
#include "server/agent/grpc_status.h"
#include "server/agent/proto_codec.h"

namespace ringswitch::agent {
namespace {

absl::Status Decode(const v1::WatchRequest& request, WatchFilter* filter) {
  filter->switch_name = request.switch_name();
  for (int kind : request.kinds()) {
    switch (kind) {
      case v1::WATCH_KIND_SWITCH:
        filter->has_switches = true;
        break;
      case v1::WATCH_KIND_PORT:
        filter->has_ports = true;
        break;
      case v1::WATCH_KIND_FDB:
        filter->has_fdb = true;
        break;
      default:  // proto3 enums are open: any number may come
        return FieldError("kinds", absl::StrCat(kind, " is nothing that can be watched"));
    }
  }
  return absl::OkStatus();
}

v1::WatchMark EncodeMark(WatchMark mark) {
  switch (mark) {
    case WatchMark::kNone:
      return v1::WATCH_MARK_UNSPECIFIED;
    case WatchMark::kSynced:
      return v1::WATCH_MARK_SYNCED;
    case WatchMark::kOverflow:
      return v1::WATCH_MARK_OVERFLOW;
    case WatchMark::kResumeRefused:
      return v1::WATCH_MARK_RESUME_REFUSED;
  }
  return v1::WATCH_MARK_UNSPECIFIED;
}

void EncodeObject(const SwitchView& view, bool deleted, v1::WatchChange* change) {
  if (deleted) {
    change->mutable_switch_()->set_name(view.spec.name);
  } else {
    Encode(view, change->mutable_switch_());
  }
}

void EncodeObject(const PortView& view, bool deleted, v1::WatchChange* change) {
  if (deleted) {
    change->mutable_port()->set_name(view.spec.name);
    change->mutable_port()->set_switch_name(view.spec.switch_name);
  } else {
    Encode(view, change->mutable_port());
  }
}

void EncodeObject(const FdbEntryView& view, bool, v1::WatchChange* change) {
  v1::FdbEntry* entry = change->mutable_fdb_entry();
  Encode(view, entry);
  entry->clear_age();
  if (view.row.target.kind == bridge::FdbKind::kNone) entry->clear_kind();  // it is gone
}

// A client's stream. Lives until gRPC says OnDone, which comes after End.
class WatchReactor final : public grpc::ServerWriteReactor<v1::WatchResponse>, public WatchStream {
 public:
  explicit WatchReactor(WatchHub* hub) : hub_(hub) {}

  void Begin(const v1::WatchRequest& request) {
    WatchFilter filter;
    absl::Status status = Decode(request, &filter);
    if (status.ok()) {
      // The client learns at once that it is being served.
      StartSendInitialMetadata();
      absl::StatusOr<uint64_t> id = hub_->Open(filter, request.resume_revision(), this);
      if (id.ok()) {
        id_ = *id;
        return;
      }
      status = id.status();
    }
    Finish(ToGrpc(status));
  }

  // WatchStream; the hub's thread.
  void Send(const WatchMessage& message) override {
    response_.set_revision(message.revision);
    response_.set_mark(EncodeMark(message.mark));
    for (const WatchedObject& object : message.objects) {
      v1::WatchChange* change = response_.add_changes();
      change->set_deleted(object.deleted);
      std::visit([&](const auto& view) { EncodeObject(view, object.deleted, change); }, object.view);
    }
    StartWrite(&response_);
  }
  void End(const absl::Status& status) override { Finish(ToGrpc(status)); }

  // gRPC's threads, none of them before Begin has returned.
  void OnWriteDone(bool ok) override {
    response_ = v1::WatchResponse();  // an idle stream holds no memory
    hub_->Written(id_, ok);
  }
  void OnCancel() override { hub_->Leave(id_); }
  void OnDone() override { delete this; }

 private:
  WatchHub* const hub_;
  uint64_t id_ = 0;  // 0: the hub has refused
  v1::WatchResponse response_;
};

}  // namespace

grpc::ServerWriteReactor<v1::WatchResponse>* WatchService::Watch(grpc::CallbackServerContext*,
                                                                 const v1::WatchRequest* request) {
  auto* reactor = new WatchReactor(hub_);
  reactor->Begin(*request);
  return reactor;
}

}  // namespace ringswitch::agent
