#ifndef TFQUIVER_OPS_CORE_RECORD_TAG_H_
#define TFQUIVER_OPS_CORE_RECORD_TAG_H_

#include <cstdint>

namespace tfquiver {

// Names a record of a data set in 63 bits, whoever reads it and in whatever order: the shard, its
// place among the shard's records as they are stored, and whether it is the last of them (which is
// how a shard's number of records becomes known).
inline constexpr uint64_t kMostTagShards = uint64_t{1} << 28;

inline constexpr uint64_t MakeTag(uint32_t shard, uint32_t index, bool last) {
  return uint64_t{shard} << 35 | uint64_t{index} << 1 | (last ? 1 : 0);
}
inline constexpr uint32_t TagShard(uint64_t tag) { return static_cast<uint32_t>(tag >> 35); }
// 34 bits in a tag that somebody made up; 32 in one that MakeTag made.
inline constexpr uint64_t TagIndex(uint64_t tag) { return tag >> 1 & ((uint64_t{1} << 34) - 1); }
inline constexpr bool TagIsLast(uint64_t tag) { return (tag & 1) != 0; }

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_RECORD_TAG_H_
