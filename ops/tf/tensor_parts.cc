#include "ops/tf/tensor_parts.h"

#include <zlib.h>

#include <memory>
#include <utility>

#include "absl/crc/crc32c.h"
#include "ops/tf/shared_strings.h"
#include "tensorflow/core/platform/tstring.h"

namespace tfquiver {
namespace {

uint32_t ExtendCrc32c(uint32_t crc, const char* data, size_t size) {
  return static_cast<uint32_t>(
      absl::ExtendCrc32c(absl::crc32c_t{crc}, absl::string_view(data, size)));
}

std::string Deflate(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string zlib(size, '\0');
  compress2(reinterpret_cast<Bytef*>(zlib.data()), &size,
            reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), Z_BEST_SPEED);
  zlib.resize(size);
  return zlib;
}

bool Inflate(std::string_view zlib, size_t size, std::string* bytes) {
  bytes->resize(size);
  uLongf got = size;
  Bytef nothing;
  const int result = uncompress(size == 0 ? &nothing : reinterpret_cast<Bytef*>(bytes->data()),
                                &got, reinterpret_cast<const Bytef*>(zlib.data()), zlib.size());
  return result == Z_OK && got == size;
}

class TstringFactory : public BlobFactory {
 public:
  void* New(size_t size, char** data) override {
    auto* blob = new tensorflow::tstring;
    blob->resize_uninitialized(size);
    *data = blob->mdata();
    return blob;
  }
  void Delete(void* blob) override { delete static_cast<tensorflow::tstring*>(blob); }

  bool shares() const override { return SharedTstrings::kAreThere; }
  void* Share(std::unique_ptr<HeldMemory> memory) override {
    return SharedTstrings::Own(std::move(memory));
  }
  void Unshare(void* owner) override { SharedTstrings::LetGo(owner); }
};

}  // namespace

Crc32cExtend Crc32c() {
  static const Crc32cExtend fastest = FastestCrc32c(&ExtendCrc32c);
  return fastest;
}

ZlibCodec Zlib() { return ZlibCodec{&Deflate, &Inflate}; }

BlobFactory* TstringBlobs() {
  static TstringFactory* factory = new TstringFactory;
  return factory;
}

}  // namespace tfquiver
