#ifndef TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_GATE_H_
#define TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_GATE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "ops/core/node_messages_socket_tickets/place.h"
#include "ops/core/record_memory/shard_records.h"
#include "ops/core/shuffle_pool_and_order/order_log.h"

namespace tfquiver {

// Shards that join the record pool now.
struct Joining {
  struct Member {
    std::unique_ptr<ShardRecords> records;
    uint32_t offset = 0;
  };
  std::vector<Member> members;
  std::optional<uint32_t> leaves;  // instead: this shard leaves the pool again
  uint64_t position = 0;
  uint32_t block_records = 0;  // over 0: the members are (the rest of) one block, emitted by itself
};

// Says when a shard that has arrived may join the record pool. A pool without one takes every shard
// at once. Not thread-safe. `drawn` is the number of records drawn so far, `left` of those that can
// be drawn now.
class Gate {
 public:
  virtual ~Gate() = default;
  // The shard has come, or will come again if it is damaged: before Arrived or Void.
  virtual void Coming(const Place& place) { static_cast<void>(place); }
  virtual void Arrived(std::unique_ptr<ShardRecords> records, const Place& place) = 0;
  // The shard came, and has nothing (new) to emit.
  virtual void Void(uint32_t shard, const Place& place) {
    static_cast<void>(shard);
    static_cast<void>(place);
  }
  // What joins now, if anything does; ask until nothing does.
  virtual bool Next(uint64_t drawn, uint64_t left, Joining* joining) = 0;
  // How many records may be drawn before Next has to be asked; 0: a shard has to arrive first.
  virtual uint64_t MayDraw(uint64_t drawn) const {
    static_cast<void>(drawn);
    return ~uint64_t{0};
  }
  // Whether draws wait until the pool has filled.
  virtual bool fills() const { return false; }
  // What Joining::leaves asked for: the records left, which may join again.
  virtual void Left(std::unique_ptr<ShardRecords> records) { static_cast<void>(records); }
  // Nothing more arrives.
  virtual void Close() {}
  // Nobody else reads this session: what is here stays, whatever the node says, so that the order
  // does not change.
  virtual bool keeps() const { return false; }
  // The node went away. Shards that it will send again to whom it likes leave this reader.
  virtual std::vector<std::unique_ptr<ShardRecords>> GiveUp() { return {}; }
  virtual std::unique_ptr<ShardRecords> Drop(uint32_t shard) = 0;
  virtual bool Has(uint32_t shard) const = 0;
  virtual std::vector<const ShardRecords*> Waiting() const = 0;
};

// Homogeneous sessions: shards of one stripe unit at a time. The next unit is that of the shard
// that has waited longest.
class UnitGate : public Gate {
 public:
  void Arrived(std::unique_ptr<ShardRecords> records, const Place& place) override;
  bool Next(uint64_t drawn, uint64_t left, Joining* joining) override;
  bool fills() const override { return true; }
  std::unique_ptr<ShardRecords> Drop(uint32_t shard) override;
  bool Has(uint32_t shard) const override;
  std::vector<const ShardRecords*> Waiting() const override;

 private:
  uint32_t unit_ = 0;
  std::map<uint32_t, std::deque<std::unique_ptr<ShardRecords>>> waiting_;  // by unit
  std::deque<uint32_t> units_;  // those with shards waiting, in the order in which they began to
  std::unordered_map<uint32_t, uint32_t> unit_of_;  // by shard
};

// Deterministic sessions: whole blocks, one after the other, in the order in which they began to
// arrive. A block that has not arrived whole when the node goes away is given up with all after it:
// the coordinator hands whole blocks out.
class BlockGate : public Gate {
 public:
  // `alone`: the session has no other reader.
  explicit BlockGate(bool alone) : alone_(alone) {}
  // Its block keeps its turn. (Of a session that others read, the shard may come to one of them.)
  void Coming(const Place& place) override {
    if (alone_) At(place);
  }
  void Arrived(std::unique_ptr<ShardRecords> records, const Place& place) override;
  void Void(uint32_t shard, const Place& place) override;
  bool Next(uint64_t drawn, uint64_t left, Joining* joining) override;
  void Close() override { closed_ = true; }
  bool keeps() const override { return alone_; }
  std::vector<std::unique_ptr<ShardRecords>> GiveUp() override;
  std::unique_ptr<ShardRecords> Drop(uint32_t shard) override;
  bool Has(uint32_t shard) const override;
  std::vector<const ShardRecords*> Waiting() const override;

 private:
  struct Block {
    uint64_t position;
    uint32_t records;
    uint32_t shards;
    std::set<uint32_t> came;
    std::map<uint32_t, Joining::Member> members;  // by shard
    bool whole() const { return came.size() >= shards; }
  };
  Block* At(const Place& place);
  Block* Of(uint32_t shard, const Place& place);

  const bool alone_;
  bool closed_ = false;
  std::deque<Block> blocks_;
};

// Replay: each shard joins after as many records as the log says. After the last entry of a log
// that ends too early, shards join when they come.
class LogGate : public Gate {
 public:
  explicit LogGate(std::vector<OrderEntry> entries) : entries_(std::move(entries)) {}
  void Arrived(std::unique_ptr<ShardRecords> records, const Place& place) override;
  bool Next(uint64_t drawn, uint64_t left, Joining* joining) override;
  uint64_t MayDraw(uint64_t drawn) const override;
  void Left(std::unique_ptr<ShardRecords> records) override;
  void Close() override { closed_ = true; }
  bool keeps() const override { return true; }
  std::unique_ptr<ShardRecords> Drop(uint32_t shard) override;
  bool Has(uint32_t shard) const override { return waiting_.count(shard) != 0; }
  std::vector<const ShardRecords*> Waiting() const override;

 private:
  const std::vector<OrderEntry> entries_;
  size_t next_ = 0;
  bool closed_ = false;
  std::map<uint32_t, std::unique_ptr<ShardRecords>> waiting_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_GATE_H_
