#ifndef TFQUIVER_OPS_CORE_BYTES_CHECKSUMS_TFRECORDS_CRC32C_H_
#define TFQUIVER_OPS_CORE_BYTES_CHECKSUMS_TFRECORDS_CRC32C_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tfquiver {

// CRC-32C (Castagnoli) of `crc`'s bytes followed by `size` more; 0 is the CRC of no bytes.
using Crc32cExtend = uint32_t (*)(uint32_t crc, const char* data, size_t size);

// One that uses the processor's CRC-32C instruction, and its products without carries where they
// are 512 bits wide; or `fallback` where there is none.
// TensorFlow's own is compiled for processors without it and takes longer than reading the bytes
// from the page cache.
Crc32cExtend FastestCrc32c(Crc32cExtend fallback);

// All that this processor can do by itself, the fastest last: what tests compare.
std::vector<Crc32cExtend> OwnCrc32c();

// With tables, eight bytes at a time: the fallback of those who bring none.
uint32_t PortableCrc32c(uint32_t crc, const char* data, size_t size);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_BYTES_CHECKSUMS_TFRECORDS_CRC32C_H_
