#include "ops/core/element_transfer/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

namespace tfquiver {
namespace {

constexpr size_t kLeastBytes = 64 << 10;
constexpr size_t kMostPieces = 256;  // mappings and descriptors of one connection

// Elements of one data set differ a little: with some room over, one's memory fits the next.
size_t Rounded(size_t size) { return (size + size / 4) / kLeastBytes * kLeastBytes + kLeastBytes; }

}  // namespace

std::unique_ptr<ElementMemory> ElementMemory::Make(size_t size) {
  UniqueFd fd(::memfd_create("tfquiver-element", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(size)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return nullptr;
  }
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return nullptr;
  return std::unique_ptr<ElementMemory>(
      new ElementMemory(std::move(fd), static_cast<char*>(data), size));
}

ElementMemory::~ElementMemory() { ::munmap(data_, size_); }

MemoryPool::Taken MemoryPool::Take(size_t size) {
  Piece* best = nullptr;
  uint32_t best_id = 0;
  for (auto& [id, piece] : pieces_) {
    if (piece.taken || piece.memory->size() < size) continue;
    if (best == nullptr || piece.memory->size() < best->memory->size()) {
      best = &piece;
      best_id = id;
    }
  }
  if (best != nullptr) {
    best->taken = true;
    return {best_id, best->memory.get(), false};
  }
  const size_t rounded = Rounded(size);
  if (pieces_.size() >= kMostPieces || rounded < size || rounded > most_bytes_ - bytes_) return {};
  std::unique_ptr<ElementMemory> memory = ElementMemory::Make(rounded);
  if (memory == nullptr) return {};
  bytes_ += rounded;
  Piece& piece = pieces_[++last_id_];
  piece = {std::move(memory), true};
  return {last_id_, piece.memory.get(), true};
}

bool MemoryPool::Release(uint32_t id) {
  const auto found = pieces_.find(id);
  if (found == pieces_.end() || !found->second.taken) return false;
  found->second.taken = false;
  return true;
}

}  // namespace tfquiver
