#ifndef TFQUIVER_OPS_CORE_BYTES_CHECKSUMS_TFRECORDS_SHA256_H_
#define TFQUIVER_OPS_CORE_BYTES_CHECKSUMS_TFRECORDS_SHA256_H_

#include <string>
#include <string_view>

namespace tfquiver {

inline constexpr size_t kSha256Bytes = 32;

// Of FIPS 180-4; 32 raw bytes.
std::string Sha256(std::string_view bytes);

// HMAC-SHA-256 of RFC 2104.
std::string HmacSha256(std::string_view key, std::string_view bytes);

// Takes the same time wherever they differ.
bool SameSecret(std::string_view left, std::string_view right);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_BYTES_CHECKSUMS_TFRECORDS_SHA256_H_
