#ifndef TFQUIVER_OPS_CORE_BYTES_CHECKSUMS_TFRECORDS_TFRECORD_H_
#define TFQUIVER_OPS_CORE_BYTES_CHECKSUMS_TFRECORDS_TFRECORD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tfquiver {

// A TFRecord is u64 length, u32 masked CRC of the length, payload, u32 masked CRC of the payload.
inline constexpr size_t kRecordHeaderBytes = 12;
inline constexpr size_t kRecordFooterBytes = 4;
inline constexpr size_t kRecordFramingBytes = kRecordHeaderBytes + kRecordFooterBytes;

struct RecordSpan {
  uint64_t offset;  // of the payload
  uint64_t size;
};

// Where the payloads are in `size` bytes of framed records. False when the framing runs out of
// bounds or there are not exactly `records`. The records' own CRCs are not read: the caller has
// checked one CRC over all of the bytes.
bool ParseRecords(const char* data, uint64_t size, uint32_t records,
                  std::vector<RecordSpan>* spans);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_BYTES_CHECKSUMS_TFRECORDS_TFRECORD_H_
