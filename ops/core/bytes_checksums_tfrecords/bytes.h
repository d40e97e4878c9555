#ifndef TFQUIVER_OPS_CORE_BYTES_CHECKSUMS_TFRECORDS_BYTES_H_
#define TFQUIVER_OPS_CORE_BYTES_CHECKSUMS_TFRECORDS_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "ops/core/bytes_checksums_tfrecords/crc32c.h"

namespace tfquiver {

// How numbers, texts and checksums become bytes, wherever the op writes or reads some: frames of
// the socket, checkpoints, ledgers, order logs. Put* append to *out. Get* take from the front of
// *in, and give false, with *value undefined, when it is too short: whoever wrote it is not
// trusted.

// Of a digest, which names a data set: raw bytes.
inline constexpr size_t kIdBytes = 32;

// Numbers are little-endian; so are the machines this is built for.
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

template <typename T>
void Put(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
bool Get(std::string_view* in, T* value) {
  if (in->size() < sizeof(T)) return false;
  std::memcpy(value, in->data(), sizeof(T));
  in->remove_prefix(sizeof(T));
  return true;
}

// Exactly `size` bytes.
inline bool GetRaw(std::string_view* in, size_t size, std::string_view* value) {
  if (in->size() < size) return false;
  *value = in->substr(0, size);
  in->remove_prefix(size);
  return true;
}

// Bytes after their number, of type Size.
template <typename Size>
void PutSized(std::string_view bytes, std::string* out) {
  Put(static_cast<Size>(bytes.size()), out);
  out->append(bytes);
}

template <typename Size>
bool GetSized(std::string_view* in, std::string_view* value) {
  Size size;
  return Get(in, &size) && GetRaw(in, size, value);
}

// Seven bits a byte, the low ones first; at most 63 bits.
inline void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

inline bool GetVarint(std::string_view* in, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 63 && !in->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    *value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// A file or text of ours begins with four letters and its version.
struct Signature {
  std::string_view magic;
  uint8_t version;
};

inline void PutSignature(const Signature& signature, std::string* out) {
  out->append(signature.magic);
  Put(signature.version, out);
}

// Whether *in begins with this one, in whatever version; then *version is that.
inline bool GetSignature(const Signature& signature, std::string_view* in, uint8_t* version) {
  if (in->substr(0, signature.magic.size()) != signature.magic) return false;
  in->remove_prefix(signature.magic.size());
  return Get(in, version);
}

// The CRC-32C of all before it ends a text.
inline void PutChecksum(Crc32cExtend crc, std::string* out) {
  Put(crc(0, out->data(), out->size()), out);
}

// Takes it off the end. False when it is not that of the rest.
inline bool CutChecksum(Crc32cExtend crc, std::string_view* in) {
  uint32_t stored;
  if (in->size() < sizeof(stored)) return false;
  std::string_view tail = in->substr(in->size() - sizeof(stored));
  in->remove_suffix(sizeof(stored));
  return Get(&tail, &stored) && crc(0, in->data(), in->size()) == stored;
}

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_BYTES_CHECKSUMS_TFRECORDS_BYTES_H_
