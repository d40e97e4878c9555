#include "ops/core/record_memory/slabs.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(data, size) ((void)(data), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(data, size) ((void)(data), (void)(size))
#endif

namespace tfquiver {
namespace {

size_t SlabBytes(size_t block_bytes) {
  size_t slab_bytes = Slabs::kLeastSlabBytes;
  while (slab_bytes < block_bytes) slab_bytes *= 2;
  return slab_bytes;
}

char* Map(size_t bytes) {
  void* const mapped =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  return static_cast<char*>(mapped);
}

}  // namespace

Slabs::Slabs(size_t block_bytes) : block_bytes_(block_bytes), slab_bytes_(SlabBytes(block_bytes)) {}

Slabs::~Slabs() {
  for (const auto& [slab, out] : out_of_) Unmap(slab);
}

char* Slabs::Get() {
  closed_ = false;
  if (kept_.empty() && empty_.empty()) NewSlab();
  std::vector<char*>& from = kept_.empty() ? empty_ : kept_;
  char* const block = from.back();
  from.pop_back();
  ++out_of_[SlabOf(block)];
  ASAN_UNPOISON_MEMORY_REGION(block, block_bytes_);
  return block;
}

void Slabs::Populate(char* block, size_t size) {
  ::madvise(block, size, MADV_POPULATE_WRITE);  // which counts whole pages
}

void Slabs::Put(char* block, bool keep) {
  --out_of_[SlabOf(block)];
  if (closed_ || !keep) return GiveBack(block);
  ASAN_POISON_MEMORY_REGION(block, block_bytes_);
  kept_.push_back(block);
}

void Slabs::Shed() {
  char* const block = kept_.back();
  kept_.pop_back();
  GiveBack(block);
}

void Slabs::Close() {
  closed_ = true;
  std::vector<char*> kept;
  kept.swap(kept_);
  // Slabs of which nothing is out go as a whole.
  empty_.clear();
  for (auto slab = out_of_.begin(); slab != out_of_.end();) {
    if (slab->second > 0) {
      ++slab;
      continue;
    }
    Unmap(slab->first);
    slab = out_of_.erase(slab);
  }
  // Of others as much at a time as lies together.
  std::sort(kept.begin(), kept.end());
  for (size_t at = 0; at < kept.size();) {
    size_t blocks = 1;
    while (at + blocks < kept.size() && kept[at + blocks] == kept[at] + blocks * block_bytes_ &&
           SlabOf(kept[at + blocks]) == SlabOf(kept[at])) {
      ++blocks;
    }
    if (out_of_.count(SlabOf(kept[at])) != 0) Empty(kept[at], blocks);
    at += blocks;
  }
}

void Slabs::NewSlab() {
  // Mappings that touch are one for the kernel, which allows a process some 65 000 of them.
  char* slab = Map(slab_bytes_);
  if (reinterpret_cast<uintptr_t>(slab) != SlabOf(slab)) {
    ::munmap(slab, slab_bytes_);
    // Twice as much, of which the part that lies as slabs do is kept.
    char* const begin = Map(2 * slab_bytes_);
    slab = reinterpret_cast<char*>(SlabOf(begin + slab_bytes_ - 1));
    if (slab > begin) ::munmap(begin, static_cast<size_t>(slab - begin));
    const size_t behind = static_cast<size_t>(begin + slab_bytes_ - slab);
    if (behind > 0) ::munmap(slab + slab_bytes_, behind);
  }
  // Of a large page no part is given back before memory is short, and the kernel makes large ones
  // of small ones by itself: a block that somebody keeps would keep a slab.
  ::madvise(slab, slab_bytes_, MADV_NOHUGEPAGE);
  out_of_[SlabOf(slab)] = 0;
  for (size_t block = slab_bytes_ / block_bytes_; block > 0; --block) {
    empty_.push_back(slab + (block - 1) * block_bytes_);
  }
}

void Slabs::Unmap(uintptr_t slab) const {
  ASAN_UNPOISON_MEMORY_REGION(reinterpret_cast<void*>(slab), slab_bytes_);
  ::munmap(reinterpret_cast<void*>(slab), slab_bytes_);
}

void Slabs::GiveBack(char* block) {
  const auto slab = out_of_.find(SlabOf(block));
  if (closed_ && slab->second == 0) {
    Unmap(slab->first);
    out_of_.erase(slab);
    return;
  }
  Empty(block, 1);
  if (!closed_) empty_.push_back(block);
}

void Slabs::Empty(char* block, size_t blocks) const {
  ::madvise(block, blocks * block_bytes_, MADV_DONTNEED);
  ASAN_POISON_MEMORY_REGION(block, blocks * block_bytes_);
}

}  // namespace tfquiver
