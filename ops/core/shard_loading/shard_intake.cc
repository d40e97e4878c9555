#include "ops/core/shard_loading/shard_intake.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

namespace tfquiver {

void ShardIntake::Accept(ShardFrame frame, UniqueFd fd) {
  if (fd.valid()) {
    ::posix_fadvise(fd.get(), static_cast<off_t>(frame.offset),
                    static_cast<off_t>(frame.length_bytes), POSIX_FADV_WILLNEED);
  }
  arrived_.emplace_back();
  arrived_.back().frame = std::move(frame);
  arrived_.back().fd = std::move(fd);
}

ShardIntake::Result ShardIntake::LoadNext() {
  if (second_) {
    Arrived second = std::move(*second_);
    second_.reset();
    return Pool(std::move(second));
  }
  Arrived first = Next();
  if (HasCompany(first)) {
    second_ = Next();
    LoadBoth(&first, &*second_);
  } else {
    Load(loader_, &first);
  }
  return Pool(std::move(first));
}

bool ShardIntake::Drop(uint32_t shard) {
  const auto is_it = [shard](const Arrived& one) { return one.frame.shard == shard; };
  const auto first = std::find_if(arrived_.begin(), arrived_.end(), is_it);
  const bool is_second = second_ && is_it(*second_);
  if (first == arrived_.end() && !is_second) return false;
  if (pool_->keeps()) return true;
  if (is_second) {
    if (second_->needed) pool_->GiveBack(second_->frame.length_bytes);  // else that was done
    second_.reset();
  }
  for (auto one = first; one != arrived_.end(); ++one) {
    if (is_it(*one)) pool_->GiveBack(one->frame.length_bytes);
  }
  arrived_.erase(std::remove_if(first, arrived_.end(), is_it), arrived_.end());
  return true;
}

void ShardIntake::Forget() {
  arrived_.clear();
  second_.reset();
}

// The one that has waited longest, and whether it is needed.
ShardIntake::Arrived ShardIntake::Next() {
  Arrived next = std::move(arrived_.front());
  arrived_.pop_front();
  const ShardFrame& frame = next.frame;
  next.needed = pool_->Consider(frame.shard, frame.length_bytes, &next.skip, frame.place) ==
                RecordPool::Fate::kNew;
  return next;
}

// Whether the next one is worth another thread. The same shard again is not: whether it is needed
// is known when this one is in the pool.
bool ShardIntake::HasCompany(const Arrived& first) const {
  if (other_ == nullptr || !first.needed || arrived_.empty()) return false;
  const ShardFrame& next = arrived_.front().frame;
  return next.shard != first.frame.shard &&
         std::min(next.length_bytes, first.frame.length_bytes) >= kLeastBytesBeside;
}

void ShardIntake::Load(ShardLoader* loader, Arrived* shard) const {
  if (shard->needed)
    shard->records = loader->Load(shard->frame, shard->fd, shard->skip, &shard->why);
}

void ShardIntake::LoadBoth(Arrived* first, Arrived* second) {
  const bool beside = second->needed && companion_.Begin([=] { Load(other_, second); });
  try {
    Load(loader_, first);
  } catch (...) {
    if (beside) companion_.Join();
    throw;
  }
  if (beside) {
    companion_.Join();
  } else {
    Load(loader_, second);
  }
}

ShardIntake::Result ShardIntake::Pool(Arrived shard) {
  const ShardFrame& frame = shard.frame;
  Result result;
  result.shard = frame.shard;
  result.length_bytes = frame.length_bytes;
  if (!shard.needed) {
    result.outcome = Outcome::kNotNeeded;
    return result;
  }
  if (shard.records != nullptr) {
    pool_->Add(std::move(shard.records), frame.length_bytes, frame.place);
    return result;
  }
  if (stop_->load()) {
    result.outcome = Outcome::kStopped;
    return result;
  }
  result.outcome = Outcome::kBad;
  result.why = std::move(shard.why);
  result.times_bad = ++times_bad_[frame.shard];
  return result;
}

}  // namespace tfquiver
