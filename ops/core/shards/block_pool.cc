#include "ops/core/shards/block_pool.h"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace tfquiver {

struct BlockPool::Store {
  Store(size_t most_kept, BlobFactory* blobs, uint64_t most_pinned_bytes)
      : most_kept(most_kept), blobs(blobs), most_pinned_bytes(most_pinned_bytes) {}

  const size_t most_kept;
  BlobFactory* const blobs;
  const uint64_t most_pinned_bytes;
  // Of blocks that are shared: with anybody, and while the pool's users hold them.
  std::atomic<uint64_t> shared_bytes{0};
  std::atomic<uint64_t> held_bytes{0};
  std::mutex mu;
  std::vector<std::unique_ptr<char[]>> kept;
};

void BlockPool::Hold::operator()(void* owner) const {
  store->held_bytes -= size;
  store->blobs->Unshare(owner);
}

// Gives the bytes back when nobody has them any more.
class BlockPool::Returning : public HeldMemory {
 public:
  Returning(std::shared_ptr<Store> store, std::unique_ptr<char[]> bytes, size_t size)
      : store_(std::move(store)), bytes_(std::move(bytes)), size_(size) {}
  ~Returning() override {
    store_->shared_bytes -= size_;
    Keep(store_.get(), std::move(bytes_), size_);
  }

 private:
  const std::shared_ptr<Store> store_;
  std::unique_ptr<char[]> bytes_;
  const size_t size_;
};

BlockPool::BlockPool(size_t most_kept, BlobFactory* blobs, uint64_t most_pinned_bytes)
    : store_(std::make_shared<Store>(most_kept, blobs, most_pinned_bytes)) {}

BlockPool::Block BlockPool::Get(size_t size) {
  Block block;
  block.size = size;
  if (size == kBlockBytes) {
    std::lock_guard<std::mutex> lock(store_->mu);
    if (!store_->kept.empty()) {
      block.bytes = std::move(store_->kept.back());
      store_->kept.pop_back();
    }
  }
  if (block.bytes == nullptr) block.bytes.reset(new char[size]);
  block.data = block.bytes.get();
  return block;
}

void BlockPool::Share(Block* block) {
  if (store_->blobs == nullptr || !store_->blobs->shares() || block->owner != nullptr) return;
  if (pinned_bytes() + block->size > store_->most_pinned_bytes) return;
  store_->shared_bytes += block->size;
  store_->held_bytes += block->size;
  auto returning = std::make_unique<Returning>(store_, std::move(block->bytes), block->size);
  block->owner = std::unique_ptr<void, Hold>(store_->blobs->Share(std::move(returning)),
                                             Hold{store_, block->size});
}

void BlockPool::Put(Block block) {
  if (block.bytes != nullptr) Keep(store_.get(), std::move(block.bytes), block.size);
}

uint64_t BlockPool::pinned_bytes() const {
  // Not as of one moment where others let go meanwhile: by a few blocks.
  const uint64_t held_bytes = store_->held_bytes;
  const uint64_t shared_bytes = store_->shared_bytes;
  return shared_bytes > held_bytes ? shared_bytes - held_bytes : 0;
}

void BlockPool::Keep(Store* store, std::unique_ptr<char[]> bytes, size_t size) {
  if (size != kBlockBytes) return;
  std::lock_guard<std::mutex> lock(store->mu);
  if (store->kept.size() < store->most_kept) store->kept.push_back(std::move(bytes));
}

}  // namespace tfquiver
