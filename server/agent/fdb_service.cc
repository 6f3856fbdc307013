#include "server/agent/fdb_service.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/agent/control_error.h"
#include "server/agent/grpc_status.h"
#include "server/agent/page_token.h"
#include "server/agent/proto_codec.h"

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

}  // namespace

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
