#ifndef TFQUIVER_OPS_CORE_SHARD_LOADING_SHARD_INTAKE_H_
#define TFQUIVER_OPS_CORE_SHARD_LOADING_SHARD_INTAKE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ops/core/node_messages_socket_tickets/frame.h"
#include "ops/core/node_messages_socket_tickets/unix_socket.h"
#include "ops/core/record_memory/shard_records.h"
#include "ops/core/shard_loading/companion.h"
#include "ops/core/shard_loading/shard_loader.h"
#include "ops/core/shuffle_pool_and_order/record_pool.h"

namespace tfquiver {

// From the descriptor of a shard to its records in the pool: a short queue, so that the kernel
// reads ahead for some while one is loaded. Where two have come that are worth it they are loaded
// side by side, one of them on a thread of the intake's own. Speaks to nobody. One thread at a
// time.
class ShardIntake {
 public:
  // `stop` ends a load early. `other`: loads the second of two; null: there is none. All outlive
  // the intake.
  ShardIntake(RecordPool* pool, ShardLoader* loader, ShardLoader* other,
              const std::atomic<bool>* stop)
      : pool_(pool), loader_(loader), other_(other), stop_(stop) {}

  bool full() const { return arrived_.size() >= kMostArrived; }
  bool empty() const { return arrived_.empty() && !second_; }
  // `frame` is one that its session can have (Validate).
  void Accept(ShardFrame frame, UniqueFd fd);

  enum class Outcome {
    kPooled,
    kNotNeeded,  // it was here, or read before
    kBad,
    kStopped,
  };
  struct Result {
    Outcome outcome = Outcome::kPooled;
    uint32_t shard = 0;
    uint64_t length_bytes = 0;
    std::string why;    // of kBad
    int times_bad = 0;  // so often was this shard kBad, this time included
  };
  // Puts the one that has waited longest into the pool; not empty().
  Result LoadNext();

  // The session no longer counts on this reader for `shard`: it does not come to the pool, and its
  // credit is given back; but for a pool that keeps what is here. False: it is not here.
  bool Drop(uint32_t shard);

  // The connection is gone: what was not loaded will be sent again.
  void Forget();

 private:
  static constexpr size_t kMostArrived = 8;
  static constexpr uint64_t kLeastBytesBeside = 256 << 10;

  struct Arrived {
    ShardFrame frame;
    UniqueFd fd;
    uint32_t skip = 0;
    bool needed = false;
    std::unique_ptr<ShardRecords> records;  // nullptr: not loaded, and why
    std::string why;
  };

  Arrived Next();
  bool HasCompany(const Arrived& first) const;
  void Load(ShardLoader* loader, Arrived* shard) const;
  void LoadBoth(Arrived* first, Arrived* second);
  Result Pool(Arrived shard);

  RecordPool* const pool_;
  ShardLoader* const loader_;
  ShardLoader* const other_;
  const std::atomic<bool>* const stop_;
  std::deque<Arrived> arrived_;
  std::optional<Arrived> second_;      // loaded, and next to be pooled
  std::map<uint32_t, int> times_bad_;  // by shard
  Companion companion_;                // destroyed first
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SHARD_LOADING_SHARD_INTAKE_H_
