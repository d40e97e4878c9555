#include "ops/core/progress_and_checkpoints/progress.h"

#include <cstddef>

namespace tfquiver {

bool Progress::SetShards(uint64_t shards) {
  if (marks_.shards != 0 && marks_.shards != shards) return false;
  marks_.shards = shards;
  marks_.done.resize((shards + 7) / 8);
  return true;
}

uint64_t Progress::shards_done() const {
  uint64_t done = 0;
  for (uint8_t byte : marks_.done) done += static_cast<uint64_t>(__builtin_popcount(byte));
  return done;
}

bool Progress::IsDone(uint32_t shard) const {
  return (marks_.done[shard / 8] >> (shard % 8) & 1) != 0;
}

uint32_t Progress::Skip(uint32_t shard) const {
  auto found = marks_.partly.find(shard);
  return found == marks_.partly.end() ? 0 : found->second;
}

void Progress::ShardSpent(uint32_t shard) {
  marks_.done[shard / 8] = static_cast<uint8_t>(marks_.done[shard / 8] | 1u << shard % 8);
  marks_.partly.erase(shard);
  if (hold_back_ == kNeverAck) {
    held_back_.emplace_back(0, shard);
  } else {
    ackable_.push_back(shard);
  }
}

void Progress::ShardEmitted(uint32_t shard, uint64_t element) {
  marks_.done[shard / 8] = static_cast<uint8_t>(marks_.done[shard / 8] | 1u << shard % 8);
  marks_.partly.erase(shard);
  held_back_.emplace_back(element, shard);
}

bool Progress::ElementsEmitted(uint64_t elements) {
  if (hold_back_ == kNeverAck) return false;
  const size_t before = ackable_.size();
  while (!held_back_.empty() && held_back_.front().first + hold_back_ < elements) {
    ackable_.push_back(held_back_.front().second);
    held_back_.pop_front();
  }
  return ackable_.size() > before;
}

void Progress::Deliver() {
  if (hold_back_ == kNeverAck) return;
  for (const auto& [element, shard] : held_back_) ackable_.push_back(shard);
  held_back_.clear();
}

std::vector<uint32_t> Progress::Unacked() const {
  std::vector<uint32_t> shards = ackable_;
  for (const auto& [element, shard] : held_back_) shards.push_back(shard);
  return shards;
}

}  // namespace tfquiver
