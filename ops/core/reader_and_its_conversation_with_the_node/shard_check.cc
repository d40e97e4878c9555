#include "ops/core/reader_and_its_conversation_with_the_node/shard_check.h"

#include <string>

#include "ops/core/bytes_checksums_tfrecords/tfrecord.h"

namespace tfquiver {
namespace {

// A block is closed by the shard that fills it.
uint64_t MostBlockRecords(const SessionWish& wish) {
  return (wish.block_bytes + kMostShardBytes) / kRecordFramingBytes;
}

std::string WrongBlock(const Place& place, const ShardFrame& shard, const SessionWish& wish,
                       const Opened& opened) {
  if (place.block_records == 0 || place.block_shards == 0) return "has no block";
  if (place.block_shards > opened.shards) return "has more shards in its block than there are";
  if (place.block_records > MostBlockRecords(wish)) return "has more records in its block than fit";
  if (place.position > opened.records || place.block_records > opened.records - place.position) {
    return "has a block that ends after the data set";
  }
  if (uint64_t{place.offset} + shard.records > place.block_records)
    return "is longer than its block";
  return "";
}

std::string Wrong(const ShardFrame& shard, const SessionWish& wish, const Opened& opened) {
  if (shard.shard >= opened.shards) return "is not one of its " + std::to_string(opened.shards);
  if (shard.length_bytes > kMostShardBytes) {
    return "has " + std::to_string(shard.length_bytes) + " bytes, more than any shard";
  }
  if (shard.records > opened.records) return "has more records than its data set";
  if (!shard.picks.empty()) {
    const uint64_t plane_bytes = (uint64_t{shard.records} + 7) / 8;
    if (plane_bytes == 0 || shard.picks.size() % plane_bytes != 0 ||
        shard.picks.size() / plane_bytes > kMostPlanes) {
      return "has picks of " + std::to_string(shard.picks.size()) +
             " bytes, which do not fit its number of records, " + std::to_string(shard.records);
    }
    if (wish.order != Order::kAny) return "has picks, in a session of an order of its own";
  }
  if (wish.order == Order::kDeterministic || wish.order == Order::kFiles)
    return WrongBlock(shard.place, shard, wish, opened);
  const Place& place = shard.place;
  const bool blocks = place.position != 0 || place.offset != 0 || place.block_records != 0 ||
                      place.block_shards != 0;
  return blocks ? "has a block, in a session that has none" : "";
}

}  // namespace

Status Validate(const ShardFrame& shard, const SessionWish& wish, const Opened& opened) {
  const std::string wrong = Wrong(shard, wish, opened);
  if (wrong.empty()) return Status();
  return Status(Code::kAborted, "shard " + std::to_string(shard.shard) + " " + wrong);
}

}  // namespace tfquiver
