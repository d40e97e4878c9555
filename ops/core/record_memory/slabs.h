#ifndef TFQUIVER_OPS_CORE_RECORD_MEMORY_SLABS_H_
#define TFQUIVER_OPS_CORE_RECORD_MEMORY_SLABS_H_

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace tfquiver {

// Blocks of one size, cut from slabs that are got from the kernel and given back to it. Not from
// the heap: what is free there stays the process's, each thread's in a place of its own, and an
// epoch's memory came on top of that of the epoch before. Not thread-safe.
class Slabs {
 public:
  static constexpr size_t kLeastSlabBytes = 2 << 20;

  // `block_bytes`: of whole pages.
  explicit Slabs(size_t block_bytes);
  // All blocks are back.
  ~Slabs();
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;

  // A block, not initialised; one that was kept, if there is one, because fresh memory costs a page
  // fault every 4 KiB. After Close all is as before it. Throws std::bad_alloc.
  char* Get();
  // The block is free. `keep`: with its memory (not after Close).
  void Put(char* block, bool keep);
  // One block fewer is kept; kept_bytes() > 0.
  void Shed();
  // No more blocks are wanted: those that are free, and those that come back from now on, give
  // their memory back.
  void Close();

  // Gives so many bytes of a block memory in one call, which costs less than a fault for each page
  // (since Linux 5.14; before that nothing happens). Needs no lock.
  static void Populate(char* block, size_t size);

  size_t block_bytes() const { return block_bytes_; }
  // Of blocks that are free and have memory.
  size_t kept_bytes() const { return kept_.size() * block_bytes_; }
  // Of slabs, those whose memory was given back included.
  size_t mapped_bytes() const { return out_of_.size() * slab_bytes_; }

 private:
  uintptr_t SlabOf(const char* block) const {
    return reinterpret_cast<uintptr_t>(block) / slab_bytes_ * slab_bytes_;
  }
  void NewSlab();
  void Unmap(uintptr_t slab) const;
  // The block's slab may be gone after this.
  void GiveBack(char* block);
  // That and those behind it keep no memory.
  void Empty(char* block, size_t blocks) const;

  const size_t block_bytes_;
  const size_t slab_bytes_;  // a power of two
  bool closed_ = false;
  std::unordered_map<uintptr_t, size_t> out_of_;  // by slab: blocks that are not back
  std::vector<char*> kept_;
  std::vector<char*> empty_;  // free, and without memory
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_RECORD_MEMORY_SLABS_H_
