#ifndef TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_ORDER_LOG_H_
#define TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_ORDER_LOG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/bytes_checksums_tfrecords/crc32c.h"
#include "ops/core/node_messages_socket_tickets/unix_socket.h"
#include "ops/core/status.h"

namespace tfquiver {

// One thing that happened to the record pool: `shard` joined it, or left it unfinished, when so
// many records had been drawn from it. All draws come from a seeded generator, so that these alone
// say which record came when.
struct OrderEntry {
  uint32_t shard = 0;
  uint64_t drawn = 0;
  bool leaves = false;
};

// What else the order depends on.
struct OrderHeader {
  bool restored = false;     // the epoch began with a checkpoint
  bool homogeneous = false;  // for people: replay does not need to know
  std::string digest_id;
  uint64_t epoch = 0;
  uint64_t draw_seed = 0;   // of the pool
  uint64_t order_seed = 0;  // of the shards (ShardLoader)
  uint64_t shuffle_bytes = 0;
  uint64_t readahead_bytes = 0;
  uint64_t shards = 0;
};

// One epoch's order, as it was served: docs/formats.md, "Order log".
struct OrderLog {
  OrderHeader header;
  std::vector<OrderEntry> entries;
  bool whole = false;  // its end was written: no entry is missing
};

// `folder`/epoch-00003.tqo
std::string OrderLogPath(const std::string& folder, uint64_t epoch);

// `path`: a log, or a folder of them, of which that of `epoch` is read; *read_path is the log.
// A partial entry at the end (the writer was killed) is left out. kNotFound, kInvalidArgument (no
// order log, another version), kDataLoss (damaged); each names the log.
Status ReadOrderLog(const std::string& path, uint64_t epoch, Crc32cExtend crc, OrderLog* log,
                    std::string* read_path);

// kInvalidArgument naming what differs from what the log was written with.
Status CheckReplayable(const OrderLog& log, const std::string& path, const std::string& digest_id,
                       uint64_t shards, uint64_t shuffle_bytes, uint64_t readahead_bytes);

// Writes a log; on the feeder's thread, so that nobody who draws records waits for a disk.
class OrderLogWriter {
 public:
  // Makes the folder if need be. kAlreadyExists when there is a log of this epoch.
  static Status Create(const std::string& folder, const OrderHeader& header, Crc32cExtend crc,
                       std::unique_ptr<OrderLogWriter>* writer);
  // False when it cannot be written; nothing more is, then, and what is there can be replayed.
  bool Append(const std::vector<OrderEntry>& entries);
  bool End(uint64_t drawn);
  const std::string& path() const { return path_; }

 private:
  OrderLogWriter(std::string path, UniqueFd fd, Crc32cExtend crc, uint32_t chain)
      : path_(std::move(path)), fd_(std::move(fd)), crc_(crc), chain_(chain) {}
  bool Write(const std::string& bytes);

  const std::string path_;
  UniqueFd fd_;
  const Crc32cExtend crc_;
  uint32_t chain_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SHUFFLE_POOL_AND_ORDER_ORDER_LOG_H_
