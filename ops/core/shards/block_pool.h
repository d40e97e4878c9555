#ifndef TFQUIVER_OPS_CORE_SHARDS_BLOCK_POOL_H_
#define TFQUIVER_OPS_CORE_SHARDS_BLOCK_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ops/core/shards/blobs.h"

namespace tfquiver {

// Memory for small records, in blocks that are used again: fresh memory costs a page fault every 4
// KiB, which is more than the copy into it. Blocks of another size than kBlockBytes (of tiny
// shards, or for one huge record) are not kept. Thread-safe.
//
// A block can be shared with strings that are made of its records: it comes back when the last of
// them is gone, and may outlive the pool. Whoever keeps one record so keeps a whole block: the
// bytes that nothing but such strings holds are bounded, and beyond that records are copied.
class BlockPool {
 public:
  static constexpr size_t kBlockBytes = 64 << 10;
  static constexpr uint64_t kMostPinnedBytes = 32 << 20;

 private:
  struct Store;
  // Of a block, on its owner.
  struct Hold {
    Hold() : size(0) {}
    Hold(std::shared_ptr<Store> store, size_t size) : store(std::move(store)), size(size) {}
    void operator()(void* owner) const;

    std::shared_ptr<Store> store;
    size_t size;
  };

 public:
  struct Block {
    char* data = nullptr;
    size_t size = 0;
    std::unique_ptr<char[]> bytes;      // data, unless it is shared
    std::unique_ptr<void, Hold> owner;  // of data, when it is
  };

  // `blobs`: makes owners; null: nothing is shared.
  explicit BlockPool(size_t most_kept, BlobFactory* blobs = nullptr,
                     uint64_t most_pinned_bytes = kMostPinnedBytes);

  Block Get(size_t size);
  // Shares the block from now on, where that can be done and too much is not pinned already.
  void Share(Block* block);
  void Put(Block block);

  // Of blocks that were shared and put back, and that strings still hold.
  uint64_t pinned_bytes() const;

 private:
  class Returning;
  static void Keep(Store* store, std::unique_ptr<char[]> bytes, size_t size);

  const std::shared_ptr<Store> store_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SHARDS_BLOCK_POOL_H_
