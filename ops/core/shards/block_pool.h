#ifndef TFQUIVER_OPS_CORE_SHARDS_BLOCK_POOL_H_
#define TFQUIVER_OPS_CORE_SHARDS_BLOCK_POOL_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace tfquiver {

// Memory for small records, in blocks that are used again: fresh memory costs a page fault every 4
// KiB, which is more than the copy into it. Blocks of another size than kBlockBytes (of tiny
// shards, or for one huge record) are not kept. Thread-safe.
class BlockPool {
 public:
  static constexpr size_t kBlockBytes = 64 << 10;

  struct Block {
    std::unique_ptr<char[]> bytes;
    size_t size = 0;
  };

  explicit BlockPool(size_t most_kept) : most_kept_(most_kept) {}

  Block Get(size_t size);
  void Put(Block block);

 private:
  const size_t most_kept_;
  std::mutex mu_;
  std::vector<Block> kept_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SHARDS_BLOCK_POOL_H_
