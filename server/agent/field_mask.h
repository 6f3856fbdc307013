#pragma once

// An update mask: which fields of the message to take. Without one, those that are set.

#include <google/protobuf/field_mask.pb.h>

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/agent/control_error.h"

namespace ringswitch::agent {

class FieldMask {
 public:
  FieldMask(const google::protobuf::FieldMask& mask, const std::set<std::string>& mutable_fields,
            const std::set<std::string>& fixed_fields)
      : is_whole_(mask.paths_size() == 0 || (mask.paths_size() == 1 && mask.paths(0) == "*")) {
    if (is_whole_) return;
    for (const std::string& path : mask.paths()) {
      if (mutable_fields.count(path) > 0) {
        paths_.insert(path);
      } else if (fixed_fields.count(path) > 0) {
        violations_.push_back({"update_mask", absl::StrCat(Quoted(path), " cannot be changed")});
      } else {
        violations_.push_back(
            {"update_mask", absl::StrCat(Quoted(path), " is no field that can be changed")});
      }
    }
  }

  bool is_whole() const { return is_whole_; }
  bool Takes(const std::string& path, bool is_set) const {
    return is_whole_ ? is_set : paths_.count(path) > 0;
  }
  absl::Status status() const { return violations_.empty() ? absl::OkStatus() : FieldError(violations_); }

 private:
  const bool is_whole_;
  std::set<std::string> paths_;
  std::vector<FieldViolation> violations_;
};

}  // namespace ringswitch::agent
