#ifndef TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_MIXTURE_H_
#define TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_MIXTURE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ops/core/node_messages_socket_tickets/place.h"
#include "ops/core/progress_and_checkpoints/checkpoint.h"
#include "ops/core/progress_and_checkpoints/trail.h"
#include "ops/core/record_memory/block_pool.h"
#include "ops/core/record_memory/shard_records.h"
#include "ops/core/shuffle_pool_and_order/gate.h"
#include "ops/core/shuffle_pool_and_order/order_log.h"
#include "ops/core/shuffle_pool_and_order/turns.h"
#include "ops/core/status.h"

namespace tfquiver {

// Records on their way out, and the memory that they lie in.
struct Drawn {
  std::vector<Record> records;
  std::vector<BlockPool::Block> retired;
  std::vector<int64_t> positions;  // of the records, in sessions that hand out blocks
};

// Which record comes next, of all that are here: first those that a script names, then, of the
// shards that a gate has let in, whosever turn it is. What comes out depends on nothing but the
// seeds, the script, and what was added and taken in which order. Not thread-safe; waits for
// nothing: where the next record has to arrive first, there is nothing to take.
class Mixture {
 public:
  // `shuffled`: records leave at random; else in the order in which their shards came.
  Mixture(bool shuffled, uint64_t draw_seed, const Script& script);

  // Before the first shard: where records come from decides `gate` (none: each shard joins when it
  // comes). `draw_seed` replaces the one given; `order_seed` is of the blocks' orders. From then
  // on, if `logged`, TakeJoined tells what joined and left, and when.
  void SetOrder(std::unique_ptr<Gate> gate, uint64_t draw_seed, uint64_t order_seed, bool logged);
  // Before the first draw: every record that is taken becomes a step of `trail`.
  void KeepTrail(std::shared_ptr<Trail> trail) { trail_ = std::move(trail); }

  // What comes and goes. A shard is here from Add until its last record was taken, or Drop.

  // A shard has come, or will come again if it is damaged: before Add or Void.
  void Coming(const Place& place);
  // `records`, of which some are left.
  void Add(std::unique_ptr<ShardRecords> records, const Place& place);
  // The shard came, and has nothing (new) to give.
  void Void(uint32_t shard, const Place& place);
  bool Has(uint32_t shard) const;
  // Takes the shard out again. nullptr: it is not here, or has to stay.
  std::unique_ptr<ShardRecords> Drop(uint32_t shard);
  // Whether all that is here has to stay: what is scripted is of a reader that is alone.
  bool keeps() const { return !script_.empty() || (gate_ != nullptr && gate_->keeps()); }
  // The node went away: what it will give again to whom it likes.
  std::vector<std::unique_ptr<ShardRecords>> GiveUp();
  // Nothing more comes.
  void Close();

  // Draws.

  // Lets in what may join now; true when something did. Before every Take.
  bool Admit();
  struct Taken {
    uint64_t raw_bytes = 0;       // TFRecord bytes of the records, framing included
    std::vector<uint32_t> spent;  // shards that gave their last record
  };
  // Appends at most `most` records to *drawn; fewer when Admit has to be asked again.
  Taken Take(uint64_t most, Drawn* drawn);
  // Records that could be taken, if nothing shut them in.
  uint64_t left() const { return left_; }
  // Shards that they are of.
  uint64_t joined() const { return slot_of_.size(); }
  // Nothing can be taken until a certain shard has come.
  bool Shut() const { return Stuck() || (gate_ != nullptr && gate_->MayDraw(drawn_) == 0); }
  // Nothing can be taken until some shard has come, or a certain one.
  bool Starved() const { return Shut() || (gate_ != nullptr && left_ == 0); }
  // Whether a fuller mixture is a better one. Not where something else settles the order.
  bool fills() const { return script_.empty() && (gate_ == nullptr || gate_->fills()); }
  // No record is here, whether it can be taken or not.
  bool empty() const { return left_ == 0 && (gate_ == nullptr || gate_->Waiting().empty()); }
  // What came contradicts itself: nothing can be taken any more.
  const Status& error() const { return error_; }

  // What it has come to.

  uint64_t drawn() const { return drawn_; }  // records taken, ever
  std::vector<uint32_t> Shards() const;      // that are here
  // Adds how many records each shard that is here has given already.
  void Mark(Marks* marks) const;
  std::vector<Step> StepsSince(const Trail::Mark& mark) const { return trail_->Since(mark); }
  // What of the script is still to come.
  void RestOfScript(Script* script) const;
  std::vector<OrderEntry> TakeJoined();

 private:
  // The script wants a record whose shard is not here.
  bool Stuck() const { return !script_.empty() && slot_of_.count(script_.front()) == 0; }
  void PassOver();
  void AdmitBlock(Joining* joining);
  // Returns the slot. Turns of its own, unless a block gives them.
  uint32_t Join(std::unique_ptr<ShardRecords> records, bool in_block);
  std::unique_ptr<ShardRecords> Leave(uint32_t shard);
  uint32_t NextSlot(Drawn* drawn);
  void TakeOne(Drawn* drawn, Taken* taken);
  void Fail(Code code, const std::string& why);

  const bool shuffled_;
  std::unique_ptr<Turns> turns_;
  BlockTurns block_;  // goes before turns_
  std::unique_ptr<Gate> gate_;
  uint64_t order_seed_ = 0;

  std::vector<std::unique_ptr<ShardRecords>> slots_;
  std::unordered_map<uint32_t, uint32_t> slot_of_;  // by shard
  std::vector<uint32_t> free_slots_;
  std::vector<uint32_t> joined_as_;  // by slot: which shard to join it is
  uint32_t shards_joined_ = 0;
  uint64_t left_ = 0;
  uint64_t drawn_ = 0;

  struct Scripted {
    uint32_t left = 0;    // so many of its records are still in the script
    uint32_t joined = 0;  // its place among the shards wanted
  };
  const std::vector<uint32_t> wanted_;               // shards of the script
  std::deque<uint32_t> script_;                      // shards: what is taken next
  std::unordered_map<uint32_t, Scripted> scripted_;  // by shard
  bool closed_ = false;

  std::shared_ptr<Trail> trail_;
  bool logged_ = false;
  std::vector<OrderEntry> joined_;
  Status error_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_MIXTURE_H_
