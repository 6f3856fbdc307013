#pragma once

// Network namespaces: their identity, and work inside them.
//
// Theory of operation. A thread's namespace is changed only on a thread that lives for one piece of work and
// ends in it. Neither thread nor file of this header is left in a namespace, since each would pin it beyond
// its pod.

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dataplane/file.h"
#include "server/agent/links.h"

namespace ringswitch::agent {

// The namespace that `path` leads to now; none if it leads to nothing. An empty path is the calling thread's.
std::optional<NamespaceId> FindNamespace(const std::string& path);

// Opens the namespace's file, which pins it until closed. NOT_FOUND: nothing is there, or it is no network
// namespace.
absl::StatusOr<File> OpenNamespace(const std::string& path, NamespaceId* id);

// Runs `work` on a thread of its own inside the namespace and waits for it; an empty path runs it on the
// calling thread, in its namespace. Errors of OpenNamespace, PERMISSION_DENIED where setns is not allowed, or
// what `work` returned.
absl::Status RunInNamespace(const std::string& path, const std::function<absl::Status(NamespaceId)>& work);

}  // namespace ringswitch::agent
