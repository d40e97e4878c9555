#ifndef TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_TURNS_H_
#define TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_TURNS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "ops/core/shuffle_pool_and_order/random.h"

namespace tfquiver {

// Whose turn it is: which of the shards that are mixed gives the next record. Shards are named by
// their slots; one turn is one record. Not thread-safe.
class Turns {
 public:
  virtual ~Turns() = default;
  // So many turns are this slot's.
  virtual void Join(uint32_t slot, uint32_t records) = 0;
  // Takes the next turn; there must be one.
  virtual uint32_t Next() = 0;
  // Its turns are nobody's.
  virtual void Leave(uint32_t slot) = 0;
};

// Every record that is here is as likely to come next: a slot has as many chances as turns.
class RandomTurns final : public Turns {
 public:
  explicit RandomTurns(uint64_t seed) : random_(seed) {}
  void Join(uint32_t slot, uint32_t records) override {
    tickets_.insert(tickets_.end(), records, slot);
  }
  uint32_t Next() override {
    const uint64_t index = random_.Below(tickets_.size());
    const uint32_t slot = tickets_[index];
    tickets_[index] = tickets_.back();
    tickets_.pop_back();
    return slot;
  }
  void Leave(uint32_t slot) override;

 private:
  Random random_;
  std::vector<uint32_t> tickets_;  // a slot for each turn
};

// One shard after the other, as they joined.
class QueueTurns final : public Turns {
 public:
  void Join(uint32_t slot, uint32_t records) override {
    if (records > 0) queue_.emplace_back(slot, records);
  }
  uint32_t Next() override {
    const uint32_t slot = queue_.front().first;
    if (--queue_.front().second == 0) queue_.pop_front();
    return slot;
  }
  void Leave(uint32_t slot) override;

 private:
  std::deque<std::pair<uint32_t, uint32_t>> queue_;  // (slot, turns)
};

// One block of the data set (Place), whose records come in an order that is a function of the order
// seed and the block alone, whoever has read some of them already: of all its records, those that
// are not here are passed over.
class BlockTurns {
 public:
  struct Member {
    uint32_t slot = 0;
    uint32_t offset = 0;   // in the block
    uint32_t records = 0;  // of the shard, those taken before included
    uint32_t taken = 0;
  };

  // In place of what is left of the block before. Without `order_seed` the block's own order.
  void Begin(uint64_t position, uint32_t records, const std::vector<Member>& members,
             const uint64_t* order_seed);
  uint64_t left() const { return left_; }
  // Takes the next turn; left() > 0. *position: of its record in the data set.
  uint32_t Next(int64_t* position);
  void Leave(uint32_t slot);

 private:
  static constexpr uint32_t kAbsent = ~uint32_t{0};  // in place of a slot

  std::vector<uint32_t> slots_;  // of each record that is still to come, last first
  uint64_t end_ = 0;             // position after the block's last record
  uint64_t left_ = 0;            // of slots_, those that are not kAbsent
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_TURNS_H_
