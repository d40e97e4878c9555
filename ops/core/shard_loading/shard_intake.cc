#include "ops/core/shard_loading/shard_intake.h"

#include <fcntl.h>

#include <memory>

namespace tfquiver {

void ShardIntake::Accept(ShardFrame frame, UniqueFd fd) {
  if (fd.valid()) {
    ::posix_fadvise(fd.get(), static_cast<off_t>(frame.offset),
                    static_cast<off_t>(frame.length_bytes), POSIX_FADV_WILLNEED);
  }
  arrived_.emplace_back(std::move(frame), std::move(fd));
}

ShardIntake::Result ShardIntake::LoadNext() {
  const auto [frame, fd] = std::move(arrived_.front());
  arrived_.pop_front();
  Result result;
  result.shard = frame.shard;
  uint32_t skip = 0;
  if (pool_->Consider(frame.shard, frame.length_bytes, &skip, frame.place) !=
      RecordPool::Fate::kNew) {
    result.outcome = Outcome::kNotNeeded;
    return result;
  }
  std::unique_ptr<ShardRecords> records = loader_->Load(frame, fd, skip, &result.why);
  if (records != nullptr) {
    pool_->Add(std::move(records), frame.length_bytes, frame.place);
    return result;
  }
  if (stop_->load()) {
    result.outcome = Outcome::kStopped;
    return result;
  }
  result.outcome = Outcome::kBad;
  result.times_bad = ++times_bad_[frame.shard];
  return result;
}

}  // namespace tfquiver
