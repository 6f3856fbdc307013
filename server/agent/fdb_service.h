#pragma once

// ringswitch.v1.FdbService: decodes, calls the model, encodes.

#include <atomic>

#include "ringswitch/v1/fdb.grpc.pb.h"
#include "server/agent/switch_model.h"

namespace ringswitch::agent {

class FdbService final : public v1::FdbService::Service {
 public:
  explicit FdbService(SwitchModel* model) : model_(model) {}

  grpc::Status CreateFdbEntry(grpc::ServerContext* context, const v1::CreateFdbEntryRequest* request,
                              v1::CreateFdbEntryResponse* response) override;
  grpc::Status CreateFdbEntries(grpc::ServerContext* context,
                                grpc::ServerReader<v1::CreateFdbEntriesRequest>* reader,
                                v1::CreateFdbEntriesResponse* response) override;
  grpc::Status GetFdbEntry(grpc::ServerContext* context, const v1::GetFdbEntryRequest* request,
                           v1::GetFdbEntryResponse* response) override;
  grpc::Status ListFdbEntries(grpc::ServerContext* context, const v1::ListFdbEntriesRequest* request,
                              v1::ListFdbEntriesResponse* response) override;
  grpc::Status UpdateFdbEntry(grpc::ServerContext* context, const v1::UpdateFdbEntryRequest* request,
                              v1::UpdateFdbEntryResponse* response) override;
  grpc::Status DeleteFdbEntry(grpc::ServerContext* context, const v1::DeleteFdbEntryRequest* request,
                              v1::DeleteFdbEntryResponse* response) override;
  grpc::Status FlushFdb(grpc::ServerContext* context, const v1::FlushFdbRequest* request,
                        v1::FlushFdbResponse* response) override;

 private:
  SwitchModel* const model_;
  std::atomic<int> streams_ = 0;  // CreateFdbEntries under way
};

}  // namespace ringswitch::agent
