#ifndef TFQUIVER_OPS_CORE_SHUFFLE_POOL_FILLING_H_
#define TFQUIVER_OPS_CORE_SHUFFLE_POOL_FILLING_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "ops/core/clock.h"

namespace tfquiver {

// How long a draw waits for a pool that is being filled, because records mix the better the more of
// them are there. Is told the time. Not thread-safe.
class Filling {
 public:
  using Time = Clock::time_point;

  struct Limits {
    uint64_t full_bytes = 0;
    std::chrono::milliseconds patience{};  // without a new shard
    std::chrono::milliseconds longest{};   // altogether
  };
  explicit Filling(const Limits& limits) : limits_(limits) {}

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
  bool Enough(uint64_t here_bytes) const {
    return expected_ == 0 || here_bytes >= (drew_ ? limits_.full_bytes / 2 : limits_.full_bytes);
  }
  // When a draw that waits since then goes on with what is there.
  Time GiveUp(Time since) const {
    return std::min(since + limits_.longest, last_arrival_ + limits_.patience);
  }

 private:
  static constexpr uint64_t kUnknown = ~uint64_t{0};

  const Limits limits_;
  uint64_t expected_ = kUnknown;
  bool drew_ = false;
  Time last_arrival_{};
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SHUFFLE_POOL_FILLING_H_
