#include "ops/core/progress_and_checkpoints/trail.h"

namespace tfquiver {

Trail::Mark::~Mark() {
  if (trail_ == nullptr) return;
  std::lock_guard<std::mutex> lock(trail_->mu_);
  const auto mark = trail_->marks_.find(at_);
  if (--mark->second > 0) return;
  trail_->marks_.erase(mark);
  trail_->Trim();
}

void Trail::Mark::Hold() const {
  if (trail_ == nullptr) return;
  std::lock_guard<std::mutex> lock(trail_->mu_);
  ++trail_->marks_[at_];
}

void Trail::Append(const Step& step) {
  std::lock_guard<std::mutex> lock(mu_);
  if (marks_.empty()) {
    ++first_;
  } else {
    steps_.push_back(step);
  }
}

Trail::Mark Trail::End() {
  std::lock_guard<std::mutex> lock(mu_);
  const uint64_t at = first_ + steps_.size();
  ++marks_[at];
  return Mark(shared_from_this(), at);
}

std::vector<Step> Trail::Since(const Mark& mark) const {
  std::lock_guard<std::mutex> lock(mu_);
  return {steps_.begin() + static_cast<std::ptrdiff_t>(mark.at_ - first_), steps_.end()};
}

size_t Trail::kept() const {
  std::lock_guard<std::mutex> lock(mu_);
  return steps_.size();
}

void Trail::Trim() {
  const uint64_t last = first_ + steps_.size();
  const uint64_t oldest = marks_.empty() ? last : marks_.begin()->first;
  steps_.erase(steps_.begin(), steps_.begin() + static_cast<std::ptrdiff_t>(oldest - first_));
  first_ = oldest;
}

}  // namespace tfquiver
