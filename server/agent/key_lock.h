#pragma once

// Locks by name: calls about one object are done one after another, calls about different ones in parallel. A
// lock may be held over slow work (namespaces, disk), unlike the model's mutex.

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>

namespace ringswitch::agent {

class KeyLocks {
 public:
  // Holds the key until destroyed.
  class Hold {
   public:
    Hold(KeyLocks* locks, std::string key);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    KeyLocks* locks_;
    std::string key_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable released_;
  std::set<std::string> held_;
};

inline KeyLocks::Hold::Hold(KeyLocks* locks, std::string key) : locks_(locks), key_(std::move(key)) {
  std::unique_lock lock(locks_->mutex_);
  locks_->released_.wait(lock, [this] { return locks_->held_.count(key_) == 0; });
  locks_->held_.insert(key_);
}

inline KeyLocks::Hold::~Hold() {
  {
    std::lock_guard lock(locks_->mutex_);
    locks_->held_.erase(key_);
  }
  locks_->released_.notify_all();
}

}  // namespace ringswitch::agent
