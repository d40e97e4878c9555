#include "ops/core/bytes_checksums_tfrecords/tfrecord.h"

#include <cstring>

namespace tfquiver {

bool ParseRecords(const char* data, uint64_t size, uint32_t records,
                  std::vector<RecordSpan>* spans) {
  spans->clear();
  if (size / kRecordFramingBytes < records) return false;
  spans->reserve(records);
  uint64_t at = 0;
  while (at < size) {
    if (size - at < kRecordFramingBytes || spans->size() == records) return false;
    uint64_t length;
    std::memcpy(&length, data + at, sizeof(length));
    if (length > size - at - kRecordFramingBytes) return false;
    spans->push_back({at + kRecordHeaderBytes, length});
    at += kRecordFramingBytes + length;
  }
  return spans->size() == records;
}

}  // namespace tfquiver
