#ifndef TFQUIVER_OPS_CORE_DELIVERED_RECORDS_DELIVERY_LEDGER_H_
#define TFQUIVER_OPS_CORE_DELIVERED_RECORDS_DELIVERY_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ops/core/bytes_checksums_tfrecords/crc32c.h"
#include "ops/core/progress_and_checkpoints/checkpoint.h"
#include "ops/core/progress_and_checkpoints/progress.h"
#include "ops/core/status.h"

namespace tfquiver {

// Which records of an epoch have been delivered, and so which of those that come are duplicates.
// One bit for each shard of the data set, and for each shard that is partly delivered one bit a
// record: with shards of 8000 records, 1 KiB for each shard that the readers have in their pools.
// Not thread-safe.
class DeliveryLedger {
 public:
  // `hold_back`: a shard may be acked when so many more elements have been delivered after the one
  // with its last record.
  DeliveryLedger(uint64_t records, uint64_t shards, uint64_t hold_back);

  enum class Verdict { kNew, kDuplicate, kWrong };
  // Of a record that came. kNew: it counts as delivered with the present element, from now on.
  // kWrong: this data set has no such record.
  Verdict Deliver(uint64_t tag);
  // The present element is complete; the next one begins.
  void ElementDelivered() { progress_.ElementsEmitted(++elements_); }
  // There is no next element.
  void EndDelivered() { progress_.Deliver(); }
  // Shards that may be acked, each returned once.
  std::vector<uint32_t> TakeAckable() { return progress_.TakeAckable(); }
  // Those that TakeAckable has returned so far (or a ledger that was written down had).
  std::vector<uint32_t> Acked() const;

  bool complete() const { return delivered_ == records_; }
  uint64_t delivered() const { return delivered_; }
  uint64_t missing() const { return records_ - delivered_; }
  // Shards of which every record was delivered, as an iterator over the rest needs them.
  Marks Done() const;
  // Of the bits that are kept.
  uint64_t memory_bytes() const;

  // "TQDL" u8 version digest_id u64 records u64 shards u64 delivered u32 size of the
  // zlib-compressed bitmap of whole shards, that bitmap; u32 n, n times (u32 shard, u32 its
  // records (0: not known), u32 size of its bitmap, that bitmap); u32 CRC-32C of all before
  std::string Write(std::string_view digest_id, Crc32cExtend crc, ZlibCodec codec) const;
  // Replaces what is here. kInvalidArgument when `bytes` is not a whole ledger of this data set.
  Status Read(std::string_view bytes, std::string_view digest_id, Crc32cExtend crc,
              ZlibCodec codec);

 private:
  struct Open {
    std::vector<uint8_t> bits;
    uint64_t delivered = 0;
    uint64_t records = 0;  // 0: its last record has not come yet
  };

  bool ReadOpen(std::string_view* in);

  const uint64_t records_;
  const uint64_t hold_back_;
  Progress progress_;
  std::unordered_map<uint32_t, Open> open_;
  uint64_t delivered_ = 0;
  uint64_t elements_ = 0;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_DELIVERED_RECORDS_DELIVERY_LEDGER_H_
