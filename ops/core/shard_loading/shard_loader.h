#ifndef TFQUIVER_OPS_CORE_SHARD_LOADING_SHARD_LOADER_H_
#define TFQUIVER_OPS_CORE_SHARD_LOADING_SHARD_LOADER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/bytes_checksums_tfrecords/crc32c.h"
#include "ops/core/bytes_checksums_tfrecords/tfrecord.h"
#include "ops/core/node_messages_socket_tickets/frame.h"
#include "ops/core/node_messages_socket_tickets/unix_socket.h"
#include "ops/core/record_memory/block_pool.h"
#include "ops/core/record_memory/shard_records.h"

namespace tfquiver {

// Reads a shard from the descriptor that came with it, checks it, and cuts it into records. Sealed
// memory is mapped; everything else is read, because a mapping of a file that shrinks or whose disk
// fails would end the process with SIGBUS. The checksum is computed piece by piece while each is in
// the cache. One thread at a time.
//
// The order in which a shard's records are emitted is a function of order seed, shard and picks
// alone (or the shard's own order, when not `shuffled`): a checkpoint need only count how many of a
// shard were emitted.
class ShardLoader {
 public:
  // From this mean size on records are read straight to where each has memory of its own; below,
  // through a buffer into blocks that they share.
  static constexpr uint64_t kLargeRecordBytes = 16 << 10;

  // `stop` ends a load early; the loader does not own what it is given.
  ShardLoader(Crc32cExtend crc, BlockPool* blocks, BlobFactory* blobs, bool shuffled,
              const std::atomic<bool>* stop)
      : crc_(crc), blocks_(blocks), blobs_(blobs), shuffled_(shuffled), stop_(stop) {}

  void set_order_seed(uint64_t seed) { order_seed_ = seed; }
  // Records loaded from now on carry their tags.
  void set_tagged(bool tagged) { tagged_ = tagged; }

  // The records of `frame`, those that it picks as often as it does, without the first `skip` of
  // the emission order. nullptr when the bytes cannot be read, do not have their checksum or do not
  // parse; *why says so.
  std::unique_ptr<ShardRecords> Load(const ShardFrame& frame, const UniqueFd& fd, uint32_t skip,
                                     std::string* why);

 private:
  bool Read(int fd, uint64_t offset, char* to, uint64_t size, uint32_t* crc, std::string* why);
  std::unique_ptr<ShardRecords> LoadLarge(const ShardFrame& frame, int fd, std::string* why);
  std::unique_ptr<ShardRecords> Pack(const ShardFrame& frame, const char* bytes, uint32_t skip,
                                     std::string* why);
  const std::vector<uint32_t>& OrderOf(const ShardFrame& frame);

  const Crc32cExtend crc_;
  BlockPool* const blocks_;
  BlobFactory* const blobs_;
  const bool shuffled_;
  const std::atomic<bool>* const stop_;
  uint64_t order_seed_ = 0;
  bool tagged_ = false;
  std::unique_ptr<char[]> buffer_;
  uint64_t buffer_bytes_ = 0;
  std::vector<RecordSpan> spans_;
  std::vector<uint32_t> indexes_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SHARD_LOADING_SHARD_LOADER_H_
