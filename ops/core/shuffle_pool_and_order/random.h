#ifndef TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_RANDOM_H_
#define TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_RANDOM_H_

#include <cstdint>

namespace tfquiver {

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): one word of state, fast, good enough to shuffle
// with. What a seed gives is part of the checkpoint format and must not change.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  // In [0, bound); bound > 0. The bias (bound / 2^64) cannot be noticed.
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }

 private:
  uint64_t state_;
};

// The generator of one shard's order: another one for each shard of one seed.
inline Random ShardRandom(uint64_t seed, uint32_t shard) {
  return Random(Random(seed ^ (uint64_t{shard} * 0xd1342543de82ef95ull)).Next());
}

// Of an epoch's order; never 0. The coordinator makes the same number (block_order.py).
inline uint64_t OrderSeed(uint64_t seed, uint64_t epoch) {
  const uint64_t mixed = Random(seed + epoch * 0x9e3779b97f4a7c15ull).Next();
  return mixed == 0 ? 1 : mixed;
}

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_RANDOM_H_
