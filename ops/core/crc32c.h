#ifndef TFQUIVER_OPS_CORE_CRC32C_H_
#define TFQUIVER_OPS_CORE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace tfquiver {

// CRC-32C (Castagnoli) of `crc`'s bytes followed by `size` more; 0 is the CRC of no bytes. Given to
// the core from outside: the TensorFlow layer has one in hardware.
using Crc32cExtend = uint32_t (*)(uint32_t crc, const char* data, size_t size);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_CRC32C_H_
