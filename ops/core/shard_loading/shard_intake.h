#ifndef TFQUIVER_OPS_CORE_SHARD_LOADING_SHARD_INTAKE_H_
#define TFQUIVER_OPS_CORE_SHARD_LOADING_SHARD_INTAKE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "ops/core/node_messages_socket_tickets/frame.h"
#include "ops/core/node_messages_socket_tickets/unix_socket.h"
#include "ops/core/shard_loading/shard_loader.h"
#include "ops/core/shuffle_pool_and_order/record_pool.h"

namespace tfquiver {

// From the descriptor of a shard to its records in the pool: a short queue, so that the kernel
// reads ahead for some while one is loaded. Speaks to nobody. One thread at a time.
class ShardIntake {
 public:
  // `stop` ends a load early. All outlive the intake.
  ShardIntake(RecordPool* pool, ShardLoader* loader, const std::atomic<bool>* stop)
      : pool_(pool), loader_(loader), stop_(stop) {}

  bool full() const { return arrived_.size() >= kMostArrived; }
  bool empty() const { return arrived_.empty(); }
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
    std::string why;    // of kBad
    int times_bad = 0;  // so often was this shard kBad, this time included
  };
  // Loads the one that has waited longest; not empty().
  Result LoadNext();

  // The connection is gone: what was not loaded will be sent again.
  void Forget() { arrived_.clear(); }

 private:
  static constexpr size_t kMostArrived = 8;

  RecordPool* const pool_;
  ShardLoader* const loader_;
  const std::atomic<bool>* const stop_;
  std::deque<std::pair<ShardFrame, UniqueFd>> arrived_;
  std::map<uint32_t, int> times_bad_;  // by shard
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SHARD_LOADING_SHARD_INTAKE_H_
