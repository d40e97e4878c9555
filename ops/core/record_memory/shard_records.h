#ifndef TFQUIVER_OPS_CORE_RECORD_MEMORY_SHARD_RECORDS_H_
#define TFQUIVER_OPS_CORE_RECORD_MEMORY_SHARD_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/core/record_memory/blobs.h"
#include "ops/core/record_memory/block_pool.h"

namespace tfquiver {

// A record on its way out. Either a blob, which the taker now owns, or bytes in a block, good until
// the taker lets go of the blocks it got with them, and with it whatever shares their owner.
// `alone`: of its block it is the only record.
struct Record {
  void* blob = nullptr;
  void* owner = nullptr;  // BlobFactory::Share; may be null
  const char* data = nullptr;
  size_t size = 0;
  uint64_t tag = 0;  // record_tag.h; meaningful when ShardRecords was told to keep them
  bool alone = false;
};

// The records of one shard in the order in which they are to be emitted. Small ones are packed into
// blocks, so that emission reads memory forwards and memory comes back while the shard is still
// being emitted; of large ones each has a block, or is a blob where strings are made that cannot
// share one. Not thread-safe.
class ShardRecords {
 public:
  // `length_bytes`: of the shard, framing included. `blobs`: null where no strings are made.
  ShardRecords(uint32_t shard, uint64_t length_bytes, BlockPool* blocks, BlobFactory* blobs)
      : shard_(shard), to_pack_bytes_(length_bytes), blocks_(blocks), blobs_(blobs) {}
  ~ShardRecords();
  ShardRecords(const ShardRecords&) = delete;
  ShardRecords& operator=(const ShardRecords&) = delete;

  // Filling: either small records, in order of emission ...
  void AppendSmall(const char* data, size_t size);
  // ... or large ones in the shard's order (returns where the bytes go), then Order. Throws
  // std::bad_alloc.
  char* AppendLarge(size_t size);
  // Puts large records into the order given: order[i] is the i-th to be emitted. Same length as
  // records().
  void Order(const std::vector<uint32_t>& order);
  // Records are to carry their tags: order[i] is the place in the shard of the i-th to be emitted.
  void KeepTags(std::vector<uint32_t> order) { tag_order_ = std::move(order); }

  uint32_t shard() const { return shard_; }
  uint32_t records() const { return records_; }
  uint32_t taken() const { return taken_; }
  uint32_t left() const { return records_ - taken_; }
  // Raw TFRecord bytes (framing included) of the records left.
  uint64_t left_bytes() const { return left_bytes_; }
  // Records that count as taken although they are not here (restored from a checkpoint).
  void CountSkipped(uint32_t skipped);

  // The next record; left() > 0. Blocks that it ends move to *retired, to be given back after the
  // copy.
  Record Take(std::vector<BlockPool::Block>* retired);
  // Moves everything still here to *retired (blobs are deleted).
  void Discard(std::vector<BlockPool::Block>* retired);

 private:
  struct Large {
    void* blob = nullptr;
    BlockPool::Block block;  // unless there is a blob
    char* data = nullptr;
    size_t size = 0;
  };

  Large& NextLarge();

  const uint32_t shard_;
  uint64_t to_pack_bytes_;  // at most this much is still to come
  uint64_t left_bytes_ = 0;
  BlockPool* const blocks_;
  BlobFactory* const blobs_;
  uint32_t records_ = 0;
  uint32_t taken_ = 0;
  std::vector<BlockPool::Block> packed_;
  std::vector<size_t> used_bytes_;  // of each block
  size_t block_ = 0;                // being read
  size_t at_ = 0;                   // in it
  std::vector<Large> large_;
  size_t next_large_ = 0;
  std::vector<uint32_t> tag_order_;  // empty: no tags
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_RECORD_MEMORY_SHARD_RECORDS_H_
