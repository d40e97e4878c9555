#include "ops/core/delivered_records/delivery_ledger.h"

#include <utility>

#include "ops/core/bytes_checksums_tfrecords/bytes.h"
#include "ops/core/record_tag.h"

namespace tfquiver {
namespace {

constexpr Signature kSignature{"TQDL", 1};

uint64_t Ones(const std::vector<uint8_t>& bits) {
  uint64_t ones = 0;
  for (uint8_t byte : bits) ones += static_cast<uint64_t>(__builtin_popcount(byte));
  return ones;
}

}  // namespace

DeliveryLedger::DeliveryLedger(uint64_t records, uint64_t shards, uint64_t hold_back)
    : records_(records), hold_back_(hold_back), progress_(hold_back, Marks{}) {
  progress_.SetShards(shards);
}

DeliveryLedger::Verdict DeliveryLedger::Deliver(uint64_t tag) {
  const uint64_t shard_number = tag >> 35;
  const uint64_t index = TagIndex(tag);
  if (shard_number >= progress_.shards() || index >= records_) return Verdict::kWrong;
  const auto shard = static_cast<uint32_t>(shard_number);
  if (progress_.IsDone(shard)) return Verdict::kDuplicate;
  Open& open = open_[shard];
  if (open.records > 0 ? index >= open.records || TagIsLast(tag) != (index + 1 == open.records)
                       : TagIsLast(tag) && open.bits.size() > index / 8 + 1) {
    return Verdict::kWrong;
  }
  if (open.bits.size() <= index / 8) open.bits.resize(index / 8 + 1);
  const auto bit = static_cast<uint8_t>(1u << index % 8);
  if ((open.bits[index / 8] & bit) != 0) return Verdict::kDuplicate;
  open.bits[index / 8] = static_cast<uint8_t>(open.bits[index / 8] | bit);
  if (TagIsLast(tag)) open.records = index + 1;
  ++delivered_;
  if (++open.delivered == open.records) {
    open_.erase(shard);
    progress_.ShardEmitted(shard, elements_);
  }
  return Verdict::kNew;
}

std::vector<uint32_t> DeliveryLedger::Acked() const {
  std::vector<uint8_t> acked = progress_.marks().done;
  for (uint32_t shard : progress_.Unacked()) {
    acked[shard / 8] = static_cast<uint8_t>(acked[shard / 8] & ~(1u << shard % 8));
  }
  std::vector<uint32_t> shards;
  for (uint32_t shard = 0; shard < progress_.shards(); ++shard) {
    if ((acked[shard / 8] >> shard % 8 & 1) != 0) shards.push_back(shard);
  }
  return shards;
}

Marks DeliveryLedger::Done() const { return progress_.marks(); }

uint64_t DeliveryLedger::memory_bytes() const {
  uint64_t bytes = progress_.marks().done.capacity();
  for (const auto& [shard, open] : open_) bytes += open.bits.capacity() + sizeof(open) + 32;
  return bytes;
}

std::string DeliveryLedger::Write(std::string_view digest_id, Crc32cExtend crc,
                                  ZlibCodec codec) const {
  const std::vector<uint8_t>& done = progress_.marks().done;
  std::string out;
  PutSignature(kSignature, &out);
  out.append(digest_id);
  Put(records_, &out);
  Put(progress_.shards(), &out);
  Put(delivered_, &out);
  PutSized<uint32_t>(codec.deflate(std::string(done.begin(), done.end())), &out);
  Put(static_cast<uint32_t>(open_.size()), &out);
  for (const auto& [shard, open] : open_) {
    Put(shard, &out);
    Put(static_cast<uint32_t>(open.records), &out);
    PutSized<uint32_t>(
        std::string_view(reinterpret_cast<const char*>(open.bits.data()), open.bits.size()), &out);
  }
  PutChecksum(crc, &out);
  return out;
}

Status DeliveryLedger::Read(std::string_view bytes, std::string_view digest_id, Crc32cExtend crc,
                            ZlibCodec codec) {
  const Status malformed(Code::kInvalidArgument, "the checkpoint of what was delivered is damaged");
  std::string_view in = bytes;
  uint8_t version;
  std::string_view of_digest;
  if (!CutChecksum(crc, &in) || !GetSignature(kSignature, &in, &version) ||
      version != kSignature.version || !GetRaw(&in, kIdBytes, &of_digest)) {
    return malformed;
  }
  uint64_t records;
  uint64_t shards;
  uint64_t delivered;
  std::string_view zlib;
  uint32_t count;
  if (!Get(&in, &records) || !Get(&in, &shards) || !Get(&in, &delivered)) return malformed;
  if (of_digest != digest_id || records != records_ || shards != progress_.shards()) {
    return Status(Code::kInvalidArgument,
                  "the checkpoint of what was delivered is of another data set: restore it into a "
                  "pipeline over the data it was taken from");
  }
  Marks marks;
  marks.shards = shards;
  std::string done;
  if (!GetSized<uint32_t>(&in, &zlib) || !codec.inflate(zlib, (shards + 7) / 8, &done) ||
      !Get(&in, &count)) {
    return malformed;
  }
  marks.done.assign(done.begin(), done.end());
  progress_ = Progress(hold_back_, std::move(marks));
  open_.clear();
  delivered_ = delivered;
  elements_ = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (!ReadOpen(&in)) return malformed;
  }
  return in.empty() ? Status() : malformed;
}

bool DeliveryLedger::ReadOpen(std::string_view* in) {
  uint32_t shard;
  uint32_t records;
  std::string_view bits;
  if (!Get(in, &shard) || !Get(in, &records) || !GetSized<uint32_t>(in, &bits)) return false;
  if (shard >= progress_.shards()) return false;
  Open& open = open_[shard];
  open.records = records;
  open.bits.assign(bits.begin(), bits.end());
  open.delivered = Ones(open.bits);
  return true;
}

}  // namespace tfquiver
