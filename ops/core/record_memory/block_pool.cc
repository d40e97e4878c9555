#include "ops/core/record_memory/block_pool.h"

#include <atomic>
#include <mutex>
#include <utility>

namespace tfquiver {

struct BlockPool::Store {
  Store(size_t most_kept, BlobFactory* blobs, uint64_t most_pinned_bytes)
      : blobs(blobs), most_pinned_bytes(most_pinned_bytes), blocks(most_kept * kBlockBytes) {}

  BlobFactory* const blobs;
  const uint64_t most_pinned_bytes;
  // Of blocks that are shared: with anybody, and while the pool's users hold them.
  std::atomic<uint64_t> shared_bytes{0};
  std::atomic<uint64_t> held_bytes{0};
  std::mutex mu;
  SizedBlocks blocks;
};

void BlockPool::Back::operator()(char* bytes) const {
  if (!SizedBlocks::Has(size)) {
    delete[] bytes;
    return;
  }
  std::lock_guard<std::mutex> lock(store->mu);
  store->blocks.Put(bytes, size);
}

void BlockPool::Hold::operator()(void* owner) const {
  store->held_bytes -= size;
  store->blobs->Unshare(owner);
}

// Gives the bytes back when nobody has them any more.
class BlockPool::Returning : public HeldMemory {
 public:
  explicit Returning(std::unique_ptr<char, Back> bytes) : bytes_(std::move(bytes)) {}
  ~Returning() override {
    const Back& back = bytes_.get_deleter();
    back.store->shared_bytes -= back.size;
  }

 private:
  const std::unique_ptr<char, Back> bytes_;
};

BlockPool::BlockPool(size_t most_kept, BlobFactory* blobs, uint64_t most_pinned_bytes)
    : store_(std::make_shared<Store>(most_kept, blobs, most_pinned_bytes)) {}

BlockPool::~BlockPool() { Close(); }

BlockPool::Block BlockPool::Get(size_t size) {
  Block block;
  block.size = size;
  size_t bytes = size;
  if (SizedBlocks::Has(size)) {
    bool fresh = false;
    {
      std::lock_guard<std::mutex> lock(store_->mu);
      block.data = store_->blocks.Get(size, &bytes, &fresh);
    }
    if (fresh) Slabs::Populate(block.data, size);
  } else {
    block.data = new char[size];
  }
  block.bytes = std::unique_ptr<char, Back>(block.data, Back{store_, bytes});
  return block;
}

BlockPool::Block BlockPool::GetAlone(size_t size) {
  Block block = Get(size);
  block.alone = true;
  return block;
}

void BlockPool::Share(Block* block) {
  if (store_->blobs == nullptr || !store_->blobs->shares() || block->owner != nullptr) return;
  const size_t bytes = block->bytes.get_deleter().size;
  if (!block->alone && pinned_bytes() + bytes > store_->most_pinned_bytes) return;
  store_->shared_bytes += bytes;
  store_->held_bytes += bytes;
  auto returning = std::make_unique<Returning>(std::move(block->bytes));
  block->owner =
      std::unique_ptr<void, Hold>(store_->blobs->Share(std::move(returning)), Hold{store_, bytes});
}

// The block's bytes or owner give back what they have.
void BlockPool::Put(Block) {}

void BlockPool::Close() {
  std::lock_guard<std::mutex> lock(store_->mu);
  store_->blocks.Close();
}

uint64_t BlockPool::mapped_bytes() const {
  std::lock_guard<std::mutex> lock(store_->mu);
  return store_->blocks.mapped_bytes();
}

uint64_t BlockPool::pinned_bytes() const {
  // Not as of one moment where others let go meanwhile: by a few blocks.
  const uint64_t held_bytes = store_->held_bytes;
  const uint64_t shared_bytes = store_->shared_bytes;
  return shared_bytes > held_bytes ? shared_bytes - held_bytes : 0;
}

}  // namespace tfquiver
