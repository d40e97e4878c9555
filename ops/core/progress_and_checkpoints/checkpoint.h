#ifndef TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_CHECKPOINT_H_
#define TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/core/bytes_checksums_tfrecords/crc32c.h"
#include "ops/core/progress_and_checkpoints/progress.h"
#include "ops/core/status.h"

namespace tfquiver {

// zlib, given from outside (TensorFlow has one). Inflate fails unless `zlib` holds exactly `size`
// bytes.
struct ZlibCodec {
  std::string (*deflate)(const std::string& bytes);
  bool (*inflate)(std::string_view zlib, size_t size, std::string* bytes);
};

// What comes next, where that is settled: records of these shards, in this order.
struct Script {
  std::vector<uint32_t> wanted;  // each shard of `draws` once, in the order in which they joined
  // By place in `wanted`, where it is what a reader has left of its own script: as Step::joined.
  // Not written down.
  std::vector<uint32_t> joined;
  std::vector<uint32_t> draws;  // for each record its shard
  uint64_t credit_bytes = 0;    // with which they all could be here
};

// Where an iterator is in its epoch: no record content, kilobytes.
struct Checkpoint {
  bool ended = false;
  bool shuffled = false;  // emission order within shards (ShardLoader)
  uint64_t order_seed = 0;
  int64_t epoch = -1;  // of the job; -1: not known
  std::string digest_id;
  Marks marks;  // marks.shards 0: nothing was read yet
  Script script;
};

// The text of a checkpoint:
//
//   "TQIT" u8 version u8 flags (1 ended, 2 shuffled, 4 the epoch is known) digest_id u64 order_seed
//   u64 epoch u64 shards u32 size of the zlib-compressed done bitmap, that bitmap; varint n, n
//   times (varint shard - previous, varint count); varint credit_bytes, varint n, n times varint
//   shard wanted, varint n, n times varint place among those (draws); u32 CRC-32C of all before
//
// Version 1 had neither epoch nor what follows the counts; it can still be read.
std::string WriteCheckpoint(const Checkpoint& checkpoint, Crc32cExtend crc, ZlibCodec codec);

// Whether `bytes` begin as one does.
bool IsCheckpoint(std::string_view bytes);
// kInvalidArgument when `bytes` is not a whole checkpoint of `digest_id`.
Status ReadCheckpoint(std::string_view bytes, std::string_view digest_id, Crc32cExtend crc,
                      ZlibCodec codec, Checkpoint* checkpoint);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_CHECKPOINT_H_
