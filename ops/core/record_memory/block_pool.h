#ifndef TFQUIVER_OPS_CORE_RECORD_MEMORY_BLOCK_POOL_H_
#define TFQUIVER_OPS_CORE_RECORD_MEMORY_BLOCK_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "ops/core/record_memory/blobs.h"
#include "ops/core/record_memory/sized_blocks.h"

namespace tfquiver {

// Memory for records, in blocks that are used again, until there are no more to come: an iterator
// may be there long after its epoch has ended, beside the next one. Blocks of sizes that
// SizedBlocks does not have are the heap's. Thread-safe.
//
// A block can be shared with strings that are made of its records: it comes back when the last of
// them is gone, and may outlive the pool. Whoever keeps one record of many so keeps a whole block:
// the bytes that nothing but such strings holds are bounded, and beyond that records are copied.
// Not so of a record that has a block alone, which costs no more than a string of its own.
class BlockPool {
 public:
  static constexpr size_t kBlockBytes = 64 << 10;  // of those that small records share
  static constexpr uint64_t kMostPinnedBytes = 32 << 20;

 private:
  struct Store;
  // Of a block's bytes: where they came from.
  struct Back {
    Back() : size(0) {}
    Back(std::shared_ptr<Store> store, size_t size) : store(std::move(store)), size(size) {}
    void operator()(char* bytes) const;

    std::shared_ptr<Store> store;
    size_t size;
  };
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
    size_t size = 0;                    // as it was got
    bool alone = false;                 // of one record
    std::unique_ptr<char, Back> bytes;  // data, unless it is shared
    std::unique_ptr<void, Hold> owner;  // of data, when it is
  };

  // `most_kept`: of free blocks so many times kBlockBytes keep their memory. `blobs`: makes owners;
  // null: nothing is shared.
  explicit BlockPool(size_t most_kept, BlobFactory* blobs = nullptr,
                     uint64_t most_pinned_bytes = kMostPinnedBytes);
  // Blocks of all kinds may still be out.
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Not initialised. Throws std::bad_alloc.
  Block Get(size_t size);
  // For one record.
  Block GetAlone(size_t size);
  // Shares the block from now on, where that can be done and too much is not pinned already.
  void Share(Block* block);
  void Put(Block block);
  // No more are wanted: what is free is not kept any longer.
  void Close();

  // Of blocks that were shared and put back, and that strings still hold.
  uint64_t pinned_bytes() const;
  // Of blocks that are not the heap's, and of what is kept for them.
  uint64_t mapped_bytes() const;

 private:
  class Returning;

  const std::shared_ptr<Store> store_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_RECORD_MEMORY_BLOCK_POOL_H_
