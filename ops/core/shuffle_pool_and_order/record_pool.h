#ifndef TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_RECORD_POOL_H_
#define TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_RECORD_POOL_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ops/core/progress_and_checkpoints/checkpoint.h"
#include "ops/core/progress_and_checkpoints/progress.h"
#include "ops/core/progress_and_checkpoints/trail.h"
#include "ops/core/reader_throughput_and_waits/report.h"
#include "ops/core/reader_throughput_and_waits/taker_meter.h"
#include "ops/core/record_memory/block_pool.h"
#include "ops/core/record_memory/credit.h"
#include "ops/core/record_memory/shard_records.h"
#include "ops/core/shuffle_pool_and_order/filling.h"
#include "ops/core/shuffle_pool_and_order/gate.h"
#include "ops/core/shuffle_pool_and_order/mixture.h"
#include "ops/core/shuffle_pool_and_order/order_log.h"
#include "ops/core/status.h"

namespace tfquiver {

struct PoolOptions {
  uint64_t shuffle_bytes = 0;   // 0: records leave in the order in which their shards came
  uint64_t capacity_bytes = 0;  // credit: what may be here at once
  uint64_t seed = 0;            // of the draws
  uint64_t hold_back = 0;       // elements
  Script script;                // of the first draws; the rest is at random
  // A draw waits for a pool that is being filled, but not longer than this without a new shard ...
  std::chrono::milliseconds patience{50};
  // ... nor than this altogether.
  std::chrono::milliseconds longest_fill{1000};
};

// Where records wait between the thread that receives shards (the feeder) and the one that emits
// them (the taker; one at a time), and these two for each other: about `shuffle_bytes` of raw
// TFRecord bytes. Which record comes next is the Mixture's to say. Invariants: the bytes here never
// exceed what the feeder was given credit for; every shard that was added is reported to Progress
// exactly once, when its last record leaves; a wait ends when there is a record, an end, an error,
// or Cancel.
class RecordPool {
 public:
  // `wake_feeder` is called (without locks held) when the feeder has something to send.
  RecordPool(const PoolOptions& options, Marks restored, BlockPool* blocks,
             std::function<void()> wake_feeder);

  // Before the first shard; see Mixture.
  void SetOrder(std::unique_ptr<Gate> gate, uint64_t draw_seed, uint64_t order_seed, bool logged);

  // Before the first draw; see Mixture.
  void KeepTrail(std::shared_ptr<Trail> trail) { mixture_.KeepTrail(std::move(trail)); }

  // The taker's side.

  // Appends records to drawn->records until there are `want`; fewer only when *end. Waits for the
  // first of them as the class comment says, and again whenever the pool runs dry; `before_wait` is
  // called (without locks held) once before the first wait. One call makes one element of the op.
  // Drawn goes to Release before the next call, unless this one failed: then the next one goes on
  // with it. At `until` a call that still waits fails with kDeadlineExceeded.
  Status Draw(size_t want, Drawn* drawn, bool* end, const std::function<void()>& before_wait = {},
              Clock::time_point until = Clock::time_point::max());
  // From any thread: the Draw that waits, or is about to, returns kCancelled; later ones are not
  // concerned.
  void CancelDraw();
  // After the copy: gives blocks back.
  void Release(Drawn* drawn);
  // What a checkpoint taken now has to say, and what of the script is still to come. With `mark`
  // also the steps of the trail since then, as of the same moment.
  Marks Snapshot(Script* script = nullptr, const Trail::Mark* mark = nullptr,
                 std::vector<Step>* steps = nullptr) const;
  // The taker has been told that there is no more.
  bool end_delivered() const;
  // Whether acks come from here (and not from where the records are delivered).
  bool acks() const { return options_.hold_back != Progress::kNeverAck; }

  // The taker leaves before the end. Unless it was cancelled, what it has taken can be acked.
  void TakerLeaves();

  // The feeder's side.

  enum class Fate { kNew, kRepeated, kAlreadyHere };
  bool SetShards(uint64_t shards);
  uint64_t shards() const;
  // What to do with a shard that came: kNew (load it, without the first *skip of its records, and
  // Add), kRepeated (emitted before; will be acked) or kAlreadyHere (the copy here goes on).
  Fate Consider(uint32_t shard, uint64_t length_bytes, uint32_t* skip, const Place& place = {});
  void Add(std::unique_ptr<ShardRecords> records, uint64_t length_bytes, const Place& place = {});
  // Neither here nor emitted.
  bool Lacks(uint32_t shard) const;
  // The session no longer counts on this reader for `shard`: emit no more of it.
  void Drop(uint32_t shard);
  // Whether Drop does nothing, because what is here stays.
  bool keeps() const;
  // A shard of that length came that will not be added: the node is owed new credit for it.
  void GiveBack(uint64_t length_bytes);
  void End();
  void Fail(Status status);
  // From any thread: the taker gets kCancelled now and for ever, whatever failed before.
  void Cancel(const std::string& why);

  struct Outbox {
    std::vector<uint32_t> acks;
    uint64_t credit_bytes = 0;
    bool empty = false;  // every record that came has been emitted
  };
  // What there is to send; credit only when it is worth a message (or the pool is empty).
  Outbox TakeOutbox();
  // What the taker has had until now.
  Report Metered();
  // For a reconnect: the shards this reader still answers for, and the bytes that are here.
  // Those of which it has only a part of what they are given with (BlockGate) are given up.
  std::vector<uint32_t> Held();
  // Forgets what credit is owed (the node counts anew) and returns the bytes that are here.
  uint64_t RestartCredit();
  // What joined and left since the last call, how many records have been drawn in all, and whether
  // these were the last.
  std::vector<OrderEntry> TakeJoined(uint64_t* drawn, bool* all);

 private:
  // Lets in what may join.
  void Admit();
  // What is wrong with the mixture is wrong with the pool.
  void Heed();
  bool Filled() const;
  Status AwaitRecords(std::unique_lock<std::mutex>* lock, bool* end,
                      std::function<void()>* before_wait, Clock::time_point until);
  void TakeUpTo(size_t want, Drawn* drawn);
  void Discard(std::unique_ptr<ShardRecords> records);
  // True once for each reason to wake the feeder.
  bool MustWake();

  const PoolOptions options_;
  BlockPool* const blocks_;
  const std::function<void()> wake_feeder_;

  mutable std::mutex mu_;
  std::condition_variable changed_;
  Mixture mixture_;
  Progress progress_;
  Credit credit_;
  Filling filling_;
  TakerMeter meter_;
  std::vector<BlockPool::Block> graveyard_;  // of dropped shards: the taker may still be copying
  Filling::Time filled_for_since_{};
  uint64_t elements_ = 0;
  bool draw_cancelled_ = false;
  bool waiting_ = false;
  bool feeder_called_ = false;
  bool told_empty_ = false;
  bool end_delivered_ = false;
  bool ended_ = false;
  Status error_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_RECORD_POOL_H_
