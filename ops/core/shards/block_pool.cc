#include "ops/core/shards/block_pool.h"

#include <utility>

namespace tfquiver {

BlockPool::Block BlockPool::Get(size_t size) {
  if (size == kBlockBytes) {
    std::lock_guard<std::mutex> lock(mu_);
    if (!kept_.empty()) {
      Block block = std::move(kept_.back());
      kept_.pop_back();
      return block;
    }
  }
  return Block{std::unique_ptr<char[]>(new char[size]), size};
}

void BlockPool::Put(Block block) {
  if (block.size != kBlockBytes) return;
  std::lock_guard<std::mutex> lock(mu_);
  if (kept_.size() < most_kept_) kept_.push_back(std::move(block));
}

}  // namespace tfquiver
