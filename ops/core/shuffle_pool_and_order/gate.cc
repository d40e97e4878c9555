#include "ops/core/shuffle_pool_and_order/gate.h"

#include <algorithm>
#include <utility>

namespace tfquiver {

void UnitGate::Arrived(std::unique_ptr<ShardRecords> records, const Place& place) {
  unit_of_[records->shard()] = place.unit;
  auto& waiting = waiting_[place.unit];
  if (waiting.empty()) units_.push_back(place.unit);
  waiting.push_back(std::move(records));
}

bool UnitGate::Next(uint64_t, uint64_t left, Joining* joining) {
  if (left == 0 && !units_.empty()) unit_ = units_.front();
  const auto found = waiting_.find(unit_);
  if (found == waiting_.end()) return false;
  for (auto& records : found->second) {
    unit_of_.erase(records->shard());
    joining->members.push_back({std::move(records), 0});
  }
  waiting_.erase(found);
  units_.erase(std::find(units_.begin(), units_.end(), unit_));
  return true;
}

std::unique_ptr<ShardRecords> UnitGate::Drop(uint32_t shard) {
  const auto unit = unit_of_.find(shard);
  if (unit == unit_of_.end()) return nullptr;
  auto& waiting = waiting_[unit->second];
  const auto found = std::find_if(waiting.begin(), waiting.end(), [shard](const auto& records) {
    return records->shard() == shard;
  });
  std::unique_ptr<ShardRecords> records = std::move(*found);
  waiting.erase(found);
  if (waiting.empty()) {
    waiting_.erase(unit->second);
    units_.erase(std::find(units_.begin(), units_.end(), unit->second));
  }
  unit_of_.erase(unit);
  return records;
}

bool UnitGate::Has(uint32_t shard) const { return unit_of_.count(shard) != 0; }

std::vector<const ShardRecords*> UnitGate::Waiting() const {
  std::vector<const ShardRecords*> all;
  for (const auto& [unit, waiting] : waiting_) {
    for (const auto& records : waiting) all.push_back(records.get());
  }
  return all;
}

BlockGate::Block* BlockGate::At(const Place& place) {
  auto block = std::find_if(blocks_.begin(), blocks_.end(), [&place](const Block& other) {
    return other.position == place.position;
  });
  if (block == blocks_.end()) {
    block = blocks_.insert(block, Block{place.position, place.block_records, 0, {}, {}});
  }
  block->shards = place.block_shards;
  return &*block;
}

BlockGate::Block* BlockGate::Of(uint32_t shard, const Place& place) {
  Block* block = At(place);
  block->came.insert(shard);
  return block;
}

void BlockGate::Arrived(std::unique_ptr<ShardRecords> records, const Place& place) {
  const uint32_t shard = records->shard();
  Of(shard, place)->members[shard] = Joining::Member{std::move(records), place.offset};
}

void BlockGate::Void(uint32_t shard, const Place& place) { Of(shard, place); }

bool BlockGate::Next(uint64_t, uint64_t left, Joining* joining) {
  if (left > 0) return false;
  while (!blocks_.empty() && (closed_ || blocks_.front().whole())) {
    Block block = std::move(blocks_.front());
    blocks_.pop_front();
    if (block.members.empty()) continue;
    joining->position = block.position;
    joining->block_records = block.records;
    for (auto& [shard, member] : block.members) joining->members.push_back(std::move(member));
    return true;
  }
  return false;
}

std::vector<std::unique_ptr<ShardRecords>> BlockGate::GiveUp() {
  auto first = std::find_if(blocks_.begin(), blocks_.end(),
                            [](const Block& block) { return !block.whole(); });
  std::vector<std::unique_ptr<ShardRecords>> given_up;
  for (auto block = first; block != blocks_.end(); ++block) {
    for (auto& [shard, member] : block->members) given_up.push_back(std::move(member.records));
  }
  blocks_.erase(first, blocks_.end());
  return given_up;
}

std::unique_ptr<ShardRecords> BlockGate::Drop(uint32_t shard) {
  for (auto block = blocks_.begin(); block != blocks_.end(); ++block) {
    const auto member = block->members.find(shard);
    if (member == block->members.end()) continue;
    std::unique_ptr<ShardRecords> records = std::move(member->second.records);
    block->members.erase(member);
    // Blocks change hands as a whole: the rest of this one will not come.
    if (block->members.empty()) blocks_.erase(block);
    return records;
  }
  return nullptr;
}

bool BlockGate::Has(uint32_t shard) const {
  return std::any_of(blocks_.begin(), blocks_.end(),
                     [shard](const Block& block) { return block.members.count(shard) != 0; });
}

std::vector<const ShardRecords*> BlockGate::Waiting() const {
  std::vector<const ShardRecords*> waiting;
  for (const Block& block : blocks_) {
    for (const auto& [shard, member] : block.members) waiting.push_back(member.records.get());
  }
  return waiting;
}

void LogGate::Arrived(std::unique_ptr<ShardRecords> records, const Place&) {
  const uint32_t shard = records->shard();
  waiting_[shard] = std::move(records);
}

bool LogGate::Next(uint64_t drawn, uint64_t left, Joining* joining) {
  // Entries of shards that the session's end has shown to be read already (closed_) are passed
  // over.
  while (next_ < entries_.size() && (entries_[next_].drawn <= drawn || (closed_ && left == 0))) {
    const OrderEntry& entry = entries_[next_];
    if (entry.leaves) {
      joining->leaves = entry.shard;
      ++next_;
      return true;
    }
    const auto found = waiting_.find(entry.shard);
    if (found != waiting_.end()) {
      joining->members.push_back({std::move(found->second), 0});
      waiting_.erase(found);
      ++next_;
      return true;
    }
    if (!closed_) return false;
    ++next_;
  }
  if (next_ < entries_.size() || waiting_.empty()) return false;
  joining->members.push_back({std::move(waiting_.begin()->second), 0});
  waiting_.erase(waiting_.begin());
  return true;
}

uint64_t LogGate::MayDraw(uint64_t drawn) const {
  if (next_ == entries_.size()) return ~uint64_t{0};
  return entries_[next_].drawn > drawn ? entries_[next_].drawn - drawn : 0;
}

void LogGate::Left(std::unique_ptr<ShardRecords> records) {
  const uint32_t shard = records->shard();
  waiting_[shard] = std::move(records);
}

std::unique_ptr<ShardRecords> LogGate::Drop(uint32_t shard) {
  const auto found = waiting_.find(shard);
  if (found == waiting_.end()) return nullptr;
  std::unique_ptr<ShardRecords> records = std::move(found->second);
  waiting_.erase(found);
  return records;
}

std::vector<const ShardRecords*> LogGate::Waiting() const {
  std::vector<const ShardRecords*> waiting;
  for (const auto& [shard, records] : waiting_) waiting.push_back(records.get());
  return waiting;
}

}  // namespace tfquiver
