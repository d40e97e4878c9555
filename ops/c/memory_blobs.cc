#include "ops/c/memory_blobs.h"

#include <cstdlib>
#include <new>

namespace tfquiver {
namespace {

class Factory : public BlobFactory {
 public:
  void* New(size_t size, char** data) override {
    void* const bytes = std::malloc(size == 0 ? 1 : size);
    if (bytes == nullptr) throw std::bad_alloc();
    *data = static_cast<char*>(bytes);
    return bytes;
  }
  void Delete(void* blob) override { std::free(blob); }
};

}  // namespace

BlobFactory* MemoryBlobs() {
  static Factory* const factory = new Factory;
  return factory;
}

}  // namespace tfquiver
