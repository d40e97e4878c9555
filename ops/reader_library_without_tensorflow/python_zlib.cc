#include "ops/reader_library_without_tensorflow/python_zlib.h"

#include <atomic>

namespace tfquiver {
namespace {

std::atomic<PythonZlib> deflate_with{nullptr};
std::atomic<PythonZlib> inflate_with{nullptr};

std::string Deflate(const std::string& bytes) {
  std::string zlib(bytes.size() + bytes.size() / 1000 + 64, '\0');
  const int64_t size = deflate_with.load()(bytes.data(), static_cast<int64_t>(bytes.size()),
                                           zlib.data(), static_cast<int64_t>(zlib.size()));
  zlib.resize(size < 0 ? 0 : static_cast<size_t>(size));
  return zlib;
}

bool Inflate(std::string_view zlib, size_t size, std::string* bytes) {
  bytes->resize(size);
  const int64_t got = inflate_with.load()(zlib.data(), static_cast<int64_t>(zlib.size()),
                                          bytes->data(), static_cast<int64_t>(size));
  return got == static_cast<int64_t>(size);
}

}  // namespace

void SetPythonZlib(PythonZlib deflate, PythonZlib inflate) {
  deflate_with = deflate;
  inflate_with = inflate;
}

ZlibCodec PythonZlibCodec() { return ZlibCodec{&Deflate, &Inflate}; }

}  // namespace tfquiver
