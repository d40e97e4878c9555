#include "ops/core/whereabouts.h"

#include <vector>

namespace tfquiver {

void Whereabouts::Follow(const Reader* reader) {
  std::lock_guard<std::mutex> lock(mu_);
  reader_ = reader;
}

void Whereabouts::Leave() {
  std::lock_guard<std::mutex> lock(mu_);
  if (reader_ == nullptr) return;
  last_ = reader_->Where();
  reader_ = nullptr;
}

Checkpoint Whereabouts::At(const Trail::Mark& mark) const {
  std::lock_guard<std::mutex> lock(mu_);
  std::vector<Step> steps;
  Checkpoint checkpoint = last_;
  if (reader_ != nullptr) {
    checkpoint = reader_->Where(&mark, &steps);
  } else {
    steps = trail_->Since(mark);
  }
  Rewind(steps, &checkpoint);
  if (marks_suffice_) checkpoint.script = Script{};
  return checkpoint;
}

}  // namespace tfquiver
