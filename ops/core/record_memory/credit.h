#ifndef TFQUIVER_OPS_CORE_RECORD_MEMORY_CREDIT_H_
#define TFQUIVER_OPS_CORE_RECORD_MEMORY_CREDIT_H_

#include <algorithm>
#include <cstdint>
#include <utility>

namespace tfquiver {

// How many bytes of shards are here, and for how many that are no longer the node is owed new
// credit. Their sum never exceeds what the node was given, but for records that a shard gives more
// than once: what they take beyond its length is owed less. Not thread-safe.
class Credit {
 public:
  // `capacity_bytes`: what may be here at once.
  explicit Credit(uint64_t capacity_bytes)
      : worth_saying_bytes_(
            static_cast<int64_t>(std::clamp<uint64_t>(capacity_bytes / 16, 1, 1 << 20))) {}

  // A shard of `length_bytes` came, of which `here_bytes` are kept.
  void Came(uint64_t length_bytes, uint64_t here_bytes) {
    here_bytes_ += here_bytes;
    owed_bytes_ += static_cast<int64_t>(length_bytes) - static_cast<int64_t>(here_bytes);
  }
  // Bytes that were here are not any more.
  void Gone(uint64_t bytes) {
    here_bytes_ -= bytes;
    owed_bytes_ += static_cast<int64_t>(bytes);
  }

  uint64_t here_bytes() const { return here_bytes_; }
  bool owes() const { return owed_bytes_ > 0; }
  // Whether what is owed is worth a message.
  bool worth_saying() const { return owed_bytes_ >= worth_saying_bytes_; }
  // The node counts anew.
  void Restart() { owed_bytes_ = 0; }
  // What is owed, which then is no more.
  uint64_t Pay() { return owes() ? static_cast<uint64_t>(std::exchange(owed_bytes_, 0)) : 0; }

 private:
  const int64_t worth_saying_bytes_;
  uint64_t here_bytes_ = 0;
  int64_t owed_bytes_ = 0;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_RECORD_MEMORY_CREDIT_H_
