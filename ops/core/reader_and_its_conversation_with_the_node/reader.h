#ifndef TFQUIVER_OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_READER_H_
#define TFQUIVER_OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_READER_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/bytes_checksums_tfrecords/crc32c.h"
#include "ops/core/node_messages_socket_tickets/unix_socket.h"
#include "ops/core/progress_and_checkpoints/checkpoint.h"
#include "ops/core/reader_and_its_conversation_with_the_node/session_client.h"
#include "ops/core/record_memory/block_pool.h"
#include "ops/core/shard_loading/shard_intake.h"
#include "ops/core/shard_loading/shard_loader.h"
#include "ops/core/shuffle_pool_and_order/order_log.h"
#include "ops/core/shuffle_pool_and_order/record_pool.h"
#include "ops/core/told_by_python/options.h"

namespace tfquiver {

// To the node that is called `endpoint` in graphs, as Process knows it.
NodeWay WayTo(const std::string& endpoint);

// What the session is asked for, of these options.
SessionWish WishOf(const Options& options);

// What a reader gets from outside the core.
struct ReaderParts {
  Crc32cExtend crc = nullptr;
  ZlibCodec zlib{};
  BlobFactory* blobs = nullptr;  // null: records stay in their blocks
  std::function<void(const std::string&)> warn;
  NodeWay way;
  // Once, when the number of its epoch is known; on the reader's thread. May be empty.
  std::function<void(int64_t epoch)> opened;
  // Of what is drawn; may be null.
  std::shared_ptr<Trail> trail;
};

// One reader of one session: the pool, and the thread's work that fills it. The owner runs Run() on
// a thread, draws from pool(), and calls Stop() and joins before it destroys the reader.
class Reader {
 public:
  // `checkpoint`: where to go on; marks.shards 0 starts afresh, in `epoch` where that is given.
  Reader(const Options& options, SessionOptions session, const Checkpoint& checkpoint,
         ReaderParts parts);

  void Run() { client_.Run(); }
  void Stop() { client_.Stop(); }
  RecordPool& pool() { return pool_; }
  // Where it is now; `ended` is the caller's to set. With `mark`, of its trail, also the steps
  // since then.
  Checkpoint Where(const Trail::Mark* mark = nullptr, std::vector<Step>* steps = nullptr) const;

 private:
  Status Opened(uint64_t epoch, std::vector<uint32_t>* wanted);
  Status FirstOpened(uint64_t epoch);
  Status Replay(uint64_t epoch, std::unique_ptr<Gate>* gate);
  void WriteLog();

  const Options options_;
  const Crc32cExtend crc_;
  const std::function<void(const std::string&)> warn_;
  const bool alone_;  // the session is this reader's own
  uint64_t seed_;
  const std::string digest_id_;
  const bool restored_;
  bool opened_ = false;
  const std::function<void(int64_t)> told_epoch_;
  const uint64_t script_credit_bytes_;
  std::vector<uint32_t> wanted_;  // first, in this order: of a log that is replayed, or a script
  std::unique_ptr<OrderLogWriter> log_;
  bool log_ended_ = false;
  std::atomic<bool> order_known_;
  std::atomic<uint64_t> order_seed_;
  std::atomic<int64_t> epoch_;
  const bool shuffled_;
  std::atomic<bool> stop_{false};
  const WakeFd wake_;
  BlockPool blocks_;
  RecordPool pool_;
  ShardLoader loader_;
  ShardLoader other_loader_;
  ShardIntake intake_;
  SessionClient client_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_READER_H_
