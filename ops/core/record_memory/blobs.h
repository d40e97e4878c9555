#ifndef TFQUIVER_OPS_CORE_RECORD_MEMORY_BLOBS_H_
#define TFQUIVER_OPS_CORE_RECORD_MEMORY_BLOBS_H_

#include <cstddef>
#include <memory>

namespace tfquiver {

// Memory that several hold; what it has to give back, it gives back when it is destroyed, on
// whatever thread.
class HeldMemory {
 public:
  virtual ~HeldMemory() = default;
};

// Makes the owners of memory that strings share; and where strings cannot, those that large records
// are read into, so that emitting one is a move and not a copy. The TensorFlow layer makes
// tstrings. Called from several threads.
class BlobFactory {
 public:
  virtual ~BlobFactory() = default;
  // A string of `size` bytes, not initialised; *data is where they go.
  virtual void* New(size_t size, char** data) = 0;
  virtual void Delete(void* blob) = 0;

  // Whether strings can share memory here.
  virtual bool shares() const { return false; }
  // An owner of `memory`, which is destroyed when all have let go of it: Unshare, and the last of
  // the strings that were made of it.
  virtual void* Share(std::unique_ptr<HeldMemory> /*memory*/) { return nullptr; }
  virtual void Unshare(void* /*owner*/) {}
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_RECORD_MEMORY_BLOBS_H_
