#ifndef TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_FILLING_H_
#define TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_FILLING_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "ops/core/clock.h"

namespace tfquiver {

// How long a draw waits for a pool that is being filled, because records mix the better the more of
// them are there. Shards come in random order, so what counts is from how many of them the records
// are: where shards are small, many are enough long before their bytes are. Is told the time. Not
// thread-safe.
class Filling {
 public:
  using Time = Clock::time_point;

  struct Limits {
    uint64_t full_bytes = 0;
    std::chrono::milliseconds patience{};  // without a new shard
    std::chrono::milliseconds longest{};   // altogether
  };
  explicit Filling(const Limits& limits)
      : limits_(limits),
        many_shards_(std::max(limits.full_bytes / kSmallShardBytes, kFewestShards)) {}

  // So many shards are still to come; the first time counts.
  void Expect(uint64_t shards) {
    if (expected_ == kUnknown) expected_ = shards;
  }
  void Arrived(Time now) {
    last_arrival_ = now;
    if (expected_ > 0 && expected_ != kUnknown) --expected_;
  }
  // A draw began.
  void Drew() { drew_ = true; }

  // Once full, a pool that is being refilled may fall to half before draws wait for it again.
  bool Enough(uint64_t here_bytes, uint64_t here_shards) const {
    const uint64_t part = drew_ ? 2 : 1;
    return expected_ == 0 || here_bytes >= limits_.full_bytes / part ||
           here_shards >= many_shards_ / part;
  }
  // When a draw that waits since then goes on with what is there.
  Time GiveUp(Time since) const {
    return std::min(since + limits_.longest, last_arrival_ + limits_.patience);
  }

 private:
  static constexpr uint64_t kUnknown = ~uint64_t{0};
  // An eighth of a usual shard: of these a pool has to hold eight times as many as of usual ones.
  static constexpr uint64_t kSmallShardBytes = 256 << 10;
  static constexpr uint64_t kFewestShards = 64;

  const Limits limits_;
  const uint64_t many_shards_;
  uint64_t expected_ = kUnknown;
  bool drew_ = false;
  Time last_arrival_{};
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_FILLING_H_
