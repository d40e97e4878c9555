#include "ops/core/element_client_and_server/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

namespace tfquiver {
namespace {

constexpr size_t kLeastBytes = 64 << 10;
constexpr size_t kMostPieces = 256;  // mappings and descriptors of one connection
// The trainer is not told that one is gone, and keeps its mapping: it takes 512 on a connection.
constexpr uint32_t kMostIds = 500;
constexpr uint64_t kLookEvery = 64;
constexpr uint64_t kUnusedFor = 256;

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

void ElementMemory::LetGoOfPages() { ::madvise(data_, size_, MADV_REMOVE); }

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
  if (++takes_ % kLookEvery == 0) LetGoOfPages(kUnusedFor);
  if (best != nullptr) {
    best->taken = best->has_pages = true;
    best->taken_at = takes_;
    return {best_id, best->memory.get(), false};
  }
  const size_t rounded = Rounded(size);
  if (rounded < size || rounded > most_bytes_) return {};
  if (!HasRoom(rounded)) LetGoOfPieces(rounded);
  if (!HasRoom(rounded)) return {};
  std::unique_ptr<ElementMemory> memory = ElementMemory::Make(rounded);
  if (memory == nullptr) return {};
  bytes_ += rounded;
  Piece& piece = pieces_[++last_id_];
  piece = {std::move(memory), true, true, takes_};
  return {last_id_, piece.memory.get(), true};
}

bool MemoryPool::Release(uint32_t id) {
  const auto found = pieces_.find(id);
  if (found == pieces_.end() || !found->second.taken) return false;
  found->second.taken = false;
  return true;
}

void MemoryPool::Rest() { LetGoOfPages(0); }

void MemoryPool::LetGoOfPages(uint64_t times) {
  for (auto& [id, piece] : pieces_) {
    if (piece.taken || !piece.has_pages || takes_ - piece.taken_at < times) continue;
    piece.memory->LetGoOfPages();
    piece.has_pages = false;
  }
}

void MemoryPool::LetGoOfPieces(size_t size) {
  if (last_id_ >= kMostIds) return;
  for (auto it = pieces_.begin(); it != pieces_.end() && !HasRoom(size);) {
    if (it->second.taken) {
      ++it;
      continue;
    }
    it->second.memory->LetGoOfPages();
    bytes_ -= it->second.memory->size();
    it = pieces_.erase(it);
  }
}

bool MemoryPool::HasRoom(size_t size) const {
  return pieces_.size() < kMostPieces && size <= most_bytes_ - bytes_;
}

}  // namespace tfquiver
