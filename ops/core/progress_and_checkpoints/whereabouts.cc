#include "ops/core/progress_and_checkpoints/whereabouts.h"

#include <vector>

#include "ops/core/progress_and_checkpoints/rewind.h"

namespace tfquiver {

void Whereabouts::Follow(std::function<Checkpoint(const Trail::Mark*, std::vector<Step>*)> where) {
  std::lock_guard<std::mutex> lock(mu_);
  where_ = std::move(where);
}

void Whereabouts::Leave() {
  std::lock_guard<std::mutex> lock(mu_);
  if (!where_) return;
  last_ = where_(nullptr, nullptr);
  where_ = nullptr;
}

void Whereabouts::FollowedBy(std::shared_ptr<const Whereabouts> next) {
  Trail::Mark begin = next->trail()->End();
  std::lock_guard<std::mutex> lock(mu_);
  next_ = std::move(next);
  next_begin_ = std::move(begin);
}

std::vector<Checkpoint> Whereabouts::At(const Trail::Mark& mark) const {
  std::vector<Checkpoint> all;
  std::shared_ptr<const Whereabouts> next;
  {
    std::lock_guard<std::mutex> lock(mu_);
    std::vector<Step> steps;
    all.push_back(where_ ? where_(&mark, &steps) : last_);
    if (!where_) steps = trail_->Since(mark);
    Rewind(steps, &all[0]);
    if (marks_suffice_) {
      all[0].script = Script{};
      return all;
    }
    next = next_;
    if (next == nullptr) all.insert(all.end(), then_.begin(), then_.end());
  }
  if (next == nullptr) return all;
  // It holds no lock of ours, and does not lead back here. `next_begin_` is set once, with next_.
  for (Checkpoint& checkpoint : next->At(next_begin_)) {
    if (checkpoint.marks.shards > 0) all.push_back(std::move(checkpoint));
  }
  return all;
}

void Lineage::Expect(const std::string& kin, std::vector<Checkpoint> then) {
  std::lock_guard<std::mutex> lock(mu_);
  expected_[kin] = std::move(then);
}

std::vector<Checkpoint> Lineage::Take(const std::string& kin) {
  std::lock_guard<std::mutex> lock(mu_);
  std::vector<Checkpoint> then = std::exchange(expected_[kin], {});
  if (then.size() > 1) expected_[kin].assign(then.begin() + 1, then.end());
  return then;
}

void Lineage::Begins(const std::string& kin, const std::shared_ptr<Whereabouts>& whereabouts) {
  std::shared_ptr<Whereabouts> before;
  {
    std::lock_guard<std::mutex> lock(mu_);
    before = std::exchange(ended_[kin], nullptr);
  }
  if (before != nullptr) before->FollowedBy(whereabouts);
}

void Lineage::Ended(const std::string& kin, const std::shared_ptr<Whereabouts>& whereabouts) {
  std::lock_guard<std::mutex> lock(mu_);
  ended_[kin] = whereabouts;
}

}  // namespace tfquiver
