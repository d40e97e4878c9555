#include "ops/core/told_by_python/waits.h"

#include <algorithm>

namespace tfquiver {
namespace {

Clock::rep Now() { return Clock::now().time_since_epoch().count(); }

}  // namespace

Waits& Waits::Get() {
  static Waits* const waits = new Waits;  // never destroyed: threads of TensorFlow's outlive main
  return *waits;
}

Waits::Waiter::Waiter(Waits* waits, const std::string& name) : waits_(waits), name_(name) {
  if (name_.empty()) return;
  std::lock_guard<std::mutex> lock(waits_->mu_);
  waits_->waiters_[name_].insert(this);
}

Waits::Waiter::~Waiter() {
  if (name_.empty()) return;
  std::lock_guard<std::mutex> lock(waits_->mu_);
  const auto found = waits_->waiters_.find(name_);
  found->second.erase(this);
  if (found->second.empty()) waits_->waiters_.erase(found);
}

void Waits::Waiter::Begins() {
  // Before it counts as asking: else it would seem to have waited since it last had one.
  if (asking_.load() == 0) since_.store(Now());
  asking_.fetch_add(1);
}

void Waits::Waiter::Has() {
  since_.store(Now());
  asking_.fetch_sub(1);
}

Waits::Longest Waits::For(const std::string& name, std::chrono::milliseconds time) const {
  Longest longest;
  std::lock_guard<std::mutex> lock(mu_);
  const auto found = waiters_.find(name);
  if (found == waiters_.end()) return longest;
  const Clock::rep now = Now();
  for (const Waiter* waiter : found->second) {
    if (waiter->asking_.load() == 0) continue;
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
        Clock::duration(now - waiter->since_.load()));
    if (waited < time) continue;
    longest.least = longest.iterators ? std::min(longest.least, waited) : waited;
    ++longest.iterators;
  }
  return longest;
}

}  // namespace tfquiver
