#include "ops/core/shuffle_pool_and_order/turns.h"

#include <algorithm>
#include <unordered_map>

namespace tfquiver {

void RandomTurns::Leave(uint32_t slot) {
  tickets_.erase(std::remove(tickets_.begin(), tickets_.end(), slot), tickets_.end());
}

void QueueTurns::Leave(uint32_t slot) {
  const auto found = std::find_if(queue_.begin(), queue_.end(),
                                  [slot](const auto& entry) { return entry.first == slot; });
  if (found != queue_.end()) queue_.erase(found);
}

void BlockTurns::Begin(uint64_t position, uint32_t records, const std::vector<Member>& members,
                       const uint64_t* order_seed) {
  slots_.assign(records, kAbsent);
  end_ = position + records;
  std::unordered_map<uint32_t, uint32_t> skips;  // by slot
  for (const Member& member : members) {
    const uint64_t end = std::min<uint64_t>(uint64_t{member.offset} + member.records, records);
    for (uint64_t at = member.offset; at < end; ++at) slots_[at] = member.slot;
    if (member.taken > 0) skips[member.slot] = member.taken;
  }
  if (order_seed != nullptr) {
    Random random(Random(*order_seed ^ (position * 0xd1342543de82ef95ull)).Next());
    for (size_t i = slots_.size(); i > 1; --i) {
      std::swap(slots_[i - 1], slots_[random.Below(i)]);
    }
  }
  for (uint32_t& slot : slots_) {
    const auto skip = skips.find(slot);
    if (skip == skips.end()) continue;
    slot = kAbsent;
    if (--skip->second == 0) skips.erase(skip);
    if (skips.empty()) break;
  }
  std::reverse(slots_.begin(), slots_.end());
  const auto absent = std::count(slots_.begin(), slots_.end(), uint32_t{kAbsent});
  left_ = slots_.size() - static_cast<size_t>(absent);
}

uint32_t BlockTurns::Next(int64_t* position) {
  while (slots_.back() == kAbsent) slots_.pop_back();
  *position = static_cast<int64_t>(end_ - slots_.size());
  const uint32_t slot = slots_.back();
  slots_.pop_back();
  --left_;
  return slot;
}

void BlockTurns::Leave(uint32_t slot) {
  for (uint32_t& turn : slots_) {
    if (turn != slot) continue;
    turn = kAbsent;
    --left_;
  }
}

}  // namespace tfquiver
