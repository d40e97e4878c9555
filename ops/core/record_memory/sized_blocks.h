#ifndef TFQUIVER_OPS_CORE_RECORD_MEMORY_SIZED_BLOCKS_H_
#define TFQUIVER_OPS_CORE_RECORD_MEMORY_SIZED_BLOCKS_H_

#include <cstddef>
#include <deque>

#include "ops/core/record_memory/slabs.h"

namespace tfquiver {

// Blocks of many sizes, in slabs by size: 4, 8, 12 and 16 KiB, and from there on four sizes to each
// doubling, so that a block is at most a quarter larger than what it is for (a page, below 16 KiB);
// half as large again, where such a one is free and has memory. What is free of other sizes is of
// no use: its memory goes back to the kernel once there is more than a little of it and fresh
// memory is needed. What blocks have of memory is therefore never more than was out at one time,
// and `spare_bytes`. Not thread-safe.
class SizedBlocks {
 public:
  static constexpr size_t kLeastBytes = 4 << 10;
  static constexpr size_t kMostBytes = 32 << 20;
  static constexpr size_t kSpareBytes = 16 << 20;

  // Whether there are blocks for so many bytes. Less is the heap's, and more, too, which makes of
  // it a mapping of its own.
  static constexpr bool Has(size_t size) { return size >= kLeastBytes && size <= kMostBytes; }

  // `most_kept_bytes`: of blocks that are free and keep their memory.
  explicit SizedBlocks(size_t most_kept_bytes, size_t spare_bytes = kSpareBytes);

  // A block of `size` bytes or more, not initialised; Has(size). Throws std::bad_alloc.
  // *fresh: it has no memory yet.
  char* Get(size_t size, size_t* block_bytes, bool* fresh = nullptr);
  void Put(char* block, size_t block_bytes);
  // As Slabs::Close.
  void Close();

  size_t kept_bytes() const { return kept_bytes_; }
  size_t mapped_bytes() const;

 private:
  // The smallest of such blocks.
  static size_t Smallest(size_t size);
  // Of the size of which most is kept.
  size_t Shed();

  const size_t most_kept_bytes_;
  const size_t spare_bytes_;
  size_t kept_bytes_ = 0;
  std::deque<Slabs> by_size_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_RECORD_MEMORY_SIZED_BLOCKS_H_
