#include "ops/core/shard_loading/companion.h"

#include <system_error>
#include <utility>

namespace tfquiver {

Companion::~Companion() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard<std::mutex> lock(mu_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Companion::Begin(std::function<void()> work) {
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error&) {
      return false;
    }
  }
  {
    std::lock_guard<std::mutex> lock(mu_);
    work_ = std::move(work);
  }
  changed_.notify_all();
  return true;
}

void Companion::Join() {
  std::unique_lock<std::mutex> lock(mu_);
  changed_.wait(lock, [this] { return !work_; });
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void Companion::Run() {
  std::unique_lock<std::mutex> lock(mu_);
  while (true) {
    changed_.wait(lock, [this] { return work_ || ends_; });
    if (ends_) return;
    lock.unlock();
    try {
      work_();
    } catch (...) {
      thrown_ = std::current_exception();
    }
    lock.lock();
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace tfquiver
