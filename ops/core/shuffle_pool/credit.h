#ifndef TFQUIVER_OPS_CORE_SHUFFLE_POOL_CREDIT_H_
#define TFQUIVER_OPS_CORE_SHUFFLE_POOL_CREDIT_H_

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tfquiver {

// How many bytes of shards are here, and for how many that are no longer the node is owed new
// credit. Their sum never exceeds what the node was given. Not thread-safe.
class Credit {
 public:
  // `capacity_bytes`: what may be here at once.
  explicit Credit(uint64_t capacity_bytes)
      : worth_saying_bytes_(std::clamp<uint64_t>(capacity_bytes / 16, 1, 1 << 20)) {}

  // A shard of `length_bytes` came, of which `here_bytes` are kept.
  void Came(uint64_t length_bytes, uint64_t here_bytes) {
    here_bytes_ += here_bytes;
    owed_bytes_ += length_bytes - here_bytes;
  }
  // Bytes that were here are not any more.
  void Gone(uint64_t bytes) {
    here_bytes_ -= bytes;
    owed_bytes_ += bytes;
  }

  uint64_t here_bytes() const { return here_bytes_; }
  bool owes() const { return owed_bytes_ > 0; }
  // Whether what is owed is worth a message.
  bool worth_saying() const { return owed_bytes_ >= worth_saying_bytes_; }
  // What is owed, which then is no more.
  uint64_t Pay() { return std::exchange(owed_bytes_, 0); }

 private:
  const uint64_t worth_saying_bytes_;
  uint64_t here_bytes_ = 0;
  uint64_t owed_bytes_ = 0;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SHUFFLE_POOL_CREDIT_H_
