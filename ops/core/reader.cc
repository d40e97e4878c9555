#include "ops/core/reader.h"

#include <utility>

#include "ops/core/process.h"
#include "ops/core/random.h"

namespace tfquiver {
namespace {

uint64_t CreditBytes(const Options& options) {
  return static_cast<uint64_t>(options.shuffle_bytes) +
         static_cast<uint64_t>(options.readahead_bytes);
}

PoolOptions PoolOptionsOf(const Options& options, const SessionOptions& session, uint64_t seed) {
  PoolOptions pool;
  pool.shuffle_bytes = static_cast<uint64_t>(options.shuffle_bytes);
  pool.capacity_bytes = CreditBytes(options);
  pool.hold_back = static_cast<uint64_t>(options.hold_back);
  // Tagged records that go through tf.data service are acked by the trainer that they are for.
  if (options.tagged && !session.session_id.empty()) pool.hold_back = Progress::kNeverAck;
  pool.seed = seed;
  return pool;
}

SessionOptions SessionOptionsOf(const Options& options, SessionOptions session,
                                const Checkpoint& checkpoint, ZlibCodec zlib) {
  session.job = options.job;
  session.seed = static_cast<uint64_t>(options.seed);
  session.credit_bytes = CreditBytes(options);
  session.connect = std::chrono::milliseconds(options.connect_ms);
  session.reconnect = std::chrono::milliseconds(options.reconnect_ms);
  if (checkpoint.marks.shards > 0) {
    const auto& done = checkpoint.marks.done;
    session.done_zlib = zlib.deflate(std::string(done.begin(), done.end()));
  }
  return session;
}

}  // namespace

Reader::Reader(const Options& options, SessionOptions session, const Checkpoint& checkpoint,
               ReaderParts parts)
    : seed_(options.seed != 0 ? static_cast<uint64_t>(options.seed) : RandomSeed()),
      digest_id_(session.digest_id),
      order_known_(checkpoint.marks.shards > 0),
      order_seed_(checkpoint.order_seed),
      shuffled_(checkpoint.marks.shards > 0 ? checkpoint.shuffled : options.shuffle_bytes > 0),
      blocks_(CreditBytes(options) / BlockPool::kBlockBytes + 64),
      pool_(PoolOptionsOf(options, session, seed_), checkpoint.marks, &blocks_, parts.blobs,
            [this] { wake_.Signal(); }),
      loader_(parts.crc, &blocks_, parts.blobs, shuffled_, &stop_),
      client_(SessionOptionsOf(options, std::move(session), checkpoint, parts.zlib),
              std::move(parts.socket_path), &pool_, &loader_, &stop_, &wake_, std::move(parts.warn),
              [this](uint64_t epoch) { Opened(epoch); }) {
  loader_.set_tagged(options.tagged);
}

// Epochs of one seed differ in order; a restored one goes on with the order it began with.
void Reader::Opened(uint64_t epoch) {
  if (!order_known_) {
    order_seed_ = Random(seed_ + epoch * 0x9e3779b97f4a7c15ull).Next();
    order_known_ = true;
  }
  loader_.set_order_seed(order_seed_);
}

Checkpoint Reader::Where() const {
  Checkpoint checkpoint;
  checkpoint.shuffled = shuffled_;
  checkpoint.digest_id = digest_id_;
  checkpoint.marks = pool_.Snapshot();
  checkpoint.order_seed = order_seed_;
  return checkpoint;
}

}  // namespace tfquiver
