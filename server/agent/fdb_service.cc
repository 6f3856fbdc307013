#include "server/agent/fdb_service.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <unordered_map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/agent/control_error.h"
#include "server/agent/grpc_status.h"
#include "server/agent/page_token.h"
#include "server/agent/proto_codec.h"
#include "server/agent/verification.h"

namespace ringswitch::agent {
namespace {

// ListFdbEntriesRequest and FlushFdbRequest filter alike.
template <typename Request>
absl::Status DecodeFilter(const Request& request, FdbFilterRequest* filter) {
  filter->switch_name = request.switch_name();
  filter->port_name = request.port_name();
  if (request.has_vid()) filter->vid = request.vid();
  return Decode(request.kind(), &filter->kind);
}

// Each holds a thread of the server and up to 100 MB, for as long as its client takes.
constexpr int kStreamsMax = 8;
// When a client is gone its stream ends as if it had finished; that it is gone is known a moment later.
constexpr std::chrono::milliseconds kGoneDelay{1};

// What a stream of CreateFdbEntries brings, made compact as it comes.
class BulkReader {
 public:
  // An error ends the stream.
  absl::Status Take(const v1::CreateFdbEntriesRequest& message) {
    if (is_first_) {
      request_.replace = message.replace();
      request_.validate_only = message.validate_only();
    }
    is_first_ = false;
    if (number_ == 0 && message.entries_size() > 0) request_.switch_name = message.entries(0).switch_name();
    if (message.entries_size() == 0) return absl::OkStatus();
    number_ranges_ += static_cast<size_t>(message.ranges_size());
    if (number_ + static_cast<size_t>(message.entries_size()) > kFdbBulkMax || number_ranges_ > kFdbBulkMax) {
      return ReasonError(absl::StatusCode::kResourceExhausted,
                         absl::StrCat("more than ", kFdbBulkMax, " FDB entries or ranges in one call"),
                         {"FDB_BULK_TOO_LARGE", {{"entries_max", absl::StrCat(kFdbBulkMax)}}});
    }
    FdbBulkRequest::Part& part = request_.parts.emplace_back();
    part.ranges = Decode(message.ranges());
    part.entries.reserve(static_cast<size_t>(message.entries_size()));
    for (const v1::FdbEntry& entry : message.entries()) {
      absl::Status status = TakeEntry(entry, &part);
      if (!status.ok()) return status;
      ++number_;
    }
    return absl::OkStatus();
  }

  const FdbBulkRequest& request() const { return request_; }

 private:
  absl::Status TakeEntry(const v1::FdbEntry& entry, FdbBulkRequest::Part* part) {
    const std::string prefix = absl::StrCat("entries[", number_, "].");
    if (entry.switch_name() != request_.switch_name) {
      return FieldError(prefix + "switch_name",
                        absl::StrCat("all entries of a call are of one switch, the first one is of ",
                                     Quoted(request_.switch_name)));
    }
    std::optional<bridge::MacAddress> mac = bridge::MacAddress::Parse(entry.mac_address());
    if (!mac.has_value())
      return Verification::FdbKeyOf(prefix, 1, entry.mac_address(), SwitchSpec()).status();
    auto [place, is_new] =
        places_.try_emplace(entry.port_name(), static_cast<uint32_t>(request_.port_names.size()));
    if (is_new) request_.port_names.push_back(entry.port_name());
    if (request_.port_names.size() > bridge::kPortsMax)
      return FieldError(prefix + "port_name", "more ports are named than there can be");
    part->entries.push_back({*mac, entry.vid(), place->second});
    return absl::OkStatus();
  }

  FdbBulkRequest request_;
  std::unordered_map<std::string, uint32_t> places_;  // in request_.port_names
  size_t number_ = 0;                                 // of the next entry in the stream
  size_t number_ranges_ = 0;
  bool is_first_ = true;
};

}  // namespace

grpc::Status FdbService::CreateFdbEntries(grpc::ServerContext* context,
                                          grpc::ServerReader<v1::CreateFdbEntriesRequest>* reader,
                                          v1::CreateFdbEntriesResponse* response) {
  struct StreamCount {
    std::atomic<int>& streams;
    ~StreamCount() { --streams; }
  } count{streams_};
  if (++streams_ > kStreamsMax) {
    return ToGrpc(ReasonError(absl::StatusCode::kResourceExhausted,
                              absl::StrCat(kStreamsMax, " calls of CreateFdbEntries are under way"),
                              {"TOO_MANY_STREAMS", {}}));
  }
  BulkReader bulk;
  v1::CreateFdbEntriesRequest message;
  while (reader->Read(&message)) {
    absl::Status status = bulk.Take(message);
    if (!status.ok()) return ToGrpc(status);
  }
  std::this_thread::sleep_for(kGoneDelay);
  if (context->IsCancelled()) return grpc::Status::CANCELLED;
  absl::StatusOr<uint32_t> created = model_->CreateFdbEntries(bulk.request());
  if (created.ok()) response->set_created_count(*created);
  return ToGrpc(created.status());
}

grpc::Status FdbService::CreateFdbEntry(grpc::ServerContext*, const v1::CreateFdbEntryRequest* request,
                                        v1::CreateFdbEntryResponse* response) {
  absl::StatusOr<FdbEntryView> view =
      model_->CreateFdbEntry(Decode(request->entry()), request->validate_only());
  if (view.ok()) Encode(*view, response->mutable_entry());
  return ToGrpc(view.status());
}

grpc::Status FdbService::GetFdbEntry(grpc::ServerContext*, const v1::GetFdbEntryRequest* request,
                                     v1::GetFdbEntryResponse* response) {
  absl::StatusOr<FdbEntryView> view =
      model_->GetFdbEntry({request->switch_name(), request->vid(), request->mac_address(), ""});
  if (view.ok()) Encode(*view, response->mutable_entry());
  return ToGrpc(view.status());
}

grpc::Status FdbService::ListFdbEntries(grpc::ServerContext*, const v1::ListFdbEntriesRequest* request,
                                        v1::ListFdbEntriesResponse* response) {
  FdbFilterRequest filter;
  absl::Status status = DecodeFilter(*request, &filter);
  if (!status.ok()) return ToGrpc(status);
  std::string listing = absl::StrCat("fdb\n", request->switch_name(), "\n", request->port_name(), "\n",
                                     request->has_vid() ? absl::StrCat(request->vid()) : "", "\n",
                                     static_cast<int>(request->kind()));
  absl::StatusOr<std::string> position = ParsePageToken(listing, request->page_token());
  if (!position.ok()) return ToGrpc(position.status());
  uint32_t cursor = 0;
  if (!position->empty() && !absl::SimpleAtoi(*position, &cursor))
    return ToGrpc(FieldError("page_token", "not a token"));
  uint32_t rows_max = static_cast<uint32_t>(PageSize(request->page_size(), kFdbPageRowsMax));
  absl::StatusOr<FdbPage> page = model_->ListFdbEntries(filter, cursor, rows_max);
  if (!page.ok()) return ToGrpc(page.status());
  for (const FdbEntryView& view : page->rows) Encode(view, response->add_entries());
  if (page->next_cursor != 0)
    response->set_next_page_token(MakePageToken(listing, absl::StrCat(page->next_cursor)));
  return grpc::Status::OK;
}

grpc::Status FdbService::UpdateFdbEntry(grpc::ServerContext*, const v1::UpdateFdbEntryRequest* request,
                                        v1::UpdateFdbEntryResponse* response) {
  absl::StatusOr<FdbEntryView> view =
      model_->UpdateFdbEntry(Decode(request->entry()), request->validate_only());
  if (view.ok()) Encode(*view, response->mutable_entry());
  return ToGrpc(view.status());
}

grpc::Status FdbService::DeleteFdbEntry(grpc::ServerContext*, const v1::DeleteFdbEntryRequest* request,
                                        v1::DeleteFdbEntryResponse*) {
  return ToGrpc(model_->DeleteFdbEntry({request->switch_name(), request->vid(), request->mac_address(), ""}));
}

grpc::Status FdbService::FlushFdb(grpc::ServerContext*, const v1::FlushFdbRequest* request,
                                  v1::FlushFdbResponse* response) {
  FdbFilterRequest filter;
  absl::Status status = DecodeFilter(*request, &filter);
  if (!status.ok()) return ToGrpc(status);
  absl::StatusOr<uint32_t> count = model_->FlushFdb(filter);
  if (count.ok()) response->set_flushed_count(*count);
  return ToGrpc(count.status());
}

}  // namespace ringswitch::agent
