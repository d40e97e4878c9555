#ifndef TFQUIVER_OPS_CORE_CHECKPOINT_H_
#define TFQUIVER_OPS_CORE_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/core/crc32c.h"
#include "ops/core/progress.h"
#include "ops/core/status.h"

namespace tfquiver {

// zlib, given from outside (TensorFlow has one). Inflate fails unless `zlib` holds exactly `size`
// bytes.
struct ZlibCodec {
  std::string (*deflate)(const std::string& bytes);
  bool (*inflate)(std::string_view zlib, size_t size, std::string* bytes);
};

// Where an iterator is in its epoch: no record content, kilobytes.
struct Checkpoint {
  bool ended = false;
  bool shuffled = false;  // emission order within shards (ShardLoader)
  uint64_t order_seed = 0;
  std::string digest_id;
  Marks marks;  // marks.shards 0: nothing was read yet
};

// Writes checkpoints; remembers the compressed bitmap, because symbolic checkpoints are taken after
// every element while the bitmap changes once a shard. Not thread-safe.
//
//   "TQIT" u8 version u8 flags (1 ended, 2 shuffled) digest_id u64 order_seed u64 shards
//   u32 size of the zlib-compressed done bitmap, that bitmap; varint n, n times (varint shard -
//   previous, varint count) u32 CRC-32C of all before
class CheckpointWriter {
 public:
  CheckpointWriter(Crc32cExtend crc, ZlibCodec codec) : crc_(crc), codec_(codec) {}
  std::string Write(const Checkpoint& checkpoint);

 private:
  const Crc32cExtend crc_;
  const ZlibCodec codec_;
  std::vector<uint8_t> done_;
  std::string done_zlib_;
};

// Whether `bytes` begin as one does.
bool IsCheckpoint(std::string_view bytes);
// kInvalidArgument when `bytes` is not a whole checkpoint of `digest_id`.
Status ReadCheckpoint(std::string_view bytes, std::string_view digest_id, Crc32cExtend crc,
                      ZlibCodec codec, Checkpoint* checkpoint);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_CHECKPOINT_H_
