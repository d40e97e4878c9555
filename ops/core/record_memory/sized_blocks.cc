#include "ops/core/record_memory/sized_blocks.h"

#include <algorithm>

namespace tfquiver {
namespace {

constexpr size_t kSizesADoubling = 4;  // of kLeastBytes each, in the first

// Doublings of kLeastBytes * kSizesADoubling that `size` goes beyond.
size_t Doubling(size_t size) {
  size_t doubling = 0;
  while ((size - 1) / SizedBlocks::kLeastBytes >> doubling >= 2 * kSizesADoubling) ++doubling;
  return doubling;
}

}  // namespace

SizedBlocks::SizedBlocks(size_t most_kept_bytes, size_t spare_bytes)
    : most_kept_bytes_(most_kept_bytes), spare_bytes_(spare_bytes) {
  size_t step = kLeastBytes;
  for (size_t size = step; size <= kMostBytes; size += step) {
    by_size_.emplace_back(size);
    if (size == 2 * kSizesADoubling * step) step *= 2;
  }
}

size_t SizedBlocks::Smallest(size_t size) {
  const size_t doubling = Doubling(size);
  return doubling * kSizesADoubling + ((size - 1) / kLeastBytes >> doubling);
}

char* SizedBlocks::Get(size_t size, size_t* block_bytes, bool* fresh) {
  const size_t smallest = Smallest(size);
  for (size_t i = smallest; i < by_size_.size(); ++i) {
    Slabs& from = by_size_[i];
    if (i > smallest && from.block_bytes() > size + size / 2) break;
    if (from.kept_bytes() == 0) continue;
    *block_bytes = from.block_bytes();
    kept_bytes_ -= *block_bytes;
    return from.Get();
  }
  Slabs& from = by_size_[smallest];
  char* const block = from.Get();
  *block_bytes = from.block_bytes();
  if (fresh != nullptr) *fresh = true;
  for (size_t shed = 0; shed < *block_bytes && kept_bytes_ > spare_bytes_;) shed += Shed();
  return block;
}

void SizedBlocks::Put(char* block, size_t block_bytes) {
  Slabs& of = by_size_[Smallest(block_bytes)];
  const size_t before = of.kept_bytes();
  of.Put(block, kept_bytes_ + block_bytes <= most_kept_bytes_);
  kept_bytes_ += of.kept_bytes() - before;
}

size_t SizedBlocks::Shed() {
  Slabs& most = *std::max_element(
      by_size_.begin(), by_size_.end(),
      [](const Slabs& one, const Slabs& other) { return one.kept_bytes() < other.kept_bytes(); });
  most.Shed();
  kept_bytes_ -= most.block_bytes();
  return most.block_bytes();
}

void SizedBlocks::Close() {
  for (Slabs& slabs : by_size_) slabs.Close();
  kept_bytes_ = 0;
}

size_t SizedBlocks::mapped_bytes() const {
  size_t bytes = 0;
  for (const Slabs& slabs : by_size_) bytes += slabs.mapped_bytes();
  return bytes;
}

}  // namespace tfquiver
