#ifndef TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_PROGRESS_H_
#define TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_PROGRESS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

namespace tfquiver {

// How far an epoch has got: what a checkpoint holds.
struct Marks {
  uint64_t shards = 0;        // in the data set; 0: not known yet
  std::vector<uint8_t> done;  // bit i of byte i/8: shard i was emitted whole
  std::map<uint32_t, uint32_t>
      partly;  // shard -> how many of its records (in emission order) were emitted
};

// Keeps the books of one reader: which shards were emitted whole, and when each may be acked. An
// element that was emitted may still sit in buffers behind the op; a shard is acked when
// `hold_back` more elements have been emitted after the one with its last record. Not thread-safe.
class Progress {
 public:
  // As hold_back: nothing is ever acked here, because somebody else does it.
  static constexpr uint64_t kNeverAck = ~uint64_t{0};

  Progress(uint64_t hold_back, Marks restored)
      : hold_back_(hold_back), marks_(std::move(restored)) {}

  // The number of shards is known. False when it contradicts the checkpoint.
  bool SetShards(uint64_t shards);
  uint64_t shards() const { return marks_.shards; }
  uint64_t shards_done() const;
  bool IsDone(uint32_t shard) const;
  // Records of `shard` that were emitted before the checkpoint was taken.
  uint32_t Skip(uint32_t shard) const;

  // The shard's last record is in element number `element` (counted from 0).
  void ShardEmitted(uint32_t shard, uint64_t element);
  // There is nothing (more) in the shard to emit: it can be acked at once.
  void ShardSpent(uint32_t shard);
  // The shard leaves with some of its records emitted: if it comes back, those are skipped.
  void ShardLeft(uint32_t shard, uint32_t emitted) { marks_.partly[shard] = emitted; }
  // `elements` elements have been emitted. True when a shard has become ackable.
  bool ElementsEmitted(uint64_t elements);
  // Nothing is held back any longer: what was emitted has been delivered, as far as can be known.
  void Deliver();
  bool has_ackable() const { return !ackable_.empty(); }
  std::vector<uint32_t> TakeAckable() { return std::exchange(ackable_, {}); }
  // Shards emitted whole and not handed out by TakeAckable yet.
  std::vector<uint32_t> Unacked() const;

  const Marks& marks() const { return marks_; }

 private:
  uint64_t hold_back_;
  Marks marks_;
  std::deque<std::pair<uint64_t, uint32_t>> held_back_;  // (element, shard)
  std::vector<uint32_t> ackable_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_PROGRESS_H_
