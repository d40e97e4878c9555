#include "ops/core/reader_and_its_conversation_with_the_node/reader.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "ops/core/shuffle_pool_and_order/gate.h"
#include "ops/core/shuffle_pool_and_order/random.h"
#include "ops/core/told_by_python/process.h"

namespace tfquiver {
namespace {

constexpr uint64_t kMostEpoch = (uint64_t{1} << 62) - 1;

uint64_t CreditBytes(const Options& options) {
  return static_cast<uint64_t>(options.shuffle_bytes) +
         static_cast<uint64_t>(options.readahead_bytes);
}

// What comes next in blocks follows from what has come.
bool InBlocks(const Options& options) { return options.deterministic || options.files; }

// A log that is replayed knows better.
const Script& ScriptOf(const Options& options, const Checkpoint& checkpoint) {
  static const Script* const none = new Script;
  return options.replay.empty() && !InBlocks(options) ? checkpoint.script : *none;
}

// The pool must be able to hold what it held when the script was made.
uint64_t CreditBytes(const Options& options, const Checkpoint& checkpoint) {
  const Script& script = ScriptOf(options, checkpoint);
  return std::max(CreditBytes(options), script.draws.empty() ? 0 : script.credit_bytes);
}

PoolOptions PoolOptionsOf(const Options& options, const SessionOptions& session,
                          const Checkpoint& checkpoint, uint64_t seed) {
  PoolOptions pool;
  pool.shuffle_bytes = static_cast<uint64_t>(options.shuffle_bytes);
  pool.capacity_bytes = CreditBytes(options, checkpoint);
  pool.script = ScriptOf(options, checkpoint);
  pool.hold_back = static_cast<uint64_t>(options.hold_back);
  // Tagged records that go through tf.data service are acked by the trainer that they are for.
  if (options.tagged && !session.session_id.empty()) pool.hold_back = Progress::kNeverAck;
  pool.seed = seed;
  return pool;
}

SessionOptions SessionOptionsOf(const Options& options, SessionOptions session,
                                const Checkpoint& checkpoint, ZlibCodec zlib) {
  session.job = options.job;
  session.wish = WishOf(options);
  session.credit_bytes = CreditBytes(options, checkpoint);
  session.connect = std::chrono::milliseconds(options.connect_ms);
  session.reconnect = std::chrono::milliseconds(options.reconnect_ms);
  // A worker's node may be starting again, and so may one that Python keeps a connection to, and
  // looks for. When it stays away, the worker itself ends.
  if (!session.label.empty() || Process::Get().IsKept(options.endpoint)) {
    session.connect = std::max(session.connect, session.reconnect);
  }
  if (checkpoint.marks.shards > 0) {
    const auto& done = checkpoint.marks.done;
    session.done_zlib = zlib.deflate(std::string(done.begin(), done.end()));
    session.wish.order_seed = checkpoint.order_seed;
    if (!ScriptOf(options, checkpoint).draws.empty()) session.wish.order = Order::kWanted;
  } else if (options.deterministic && checkpoint.epoch >= 0) {
    session.wish.order_seed = OrderSeed(session.wish.seed, static_cast<uint64_t>(checkpoint.epoch));
  }
  return session;
}

}  // namespace

NodeWay WayTo(const std::string& endpoint) {
  const Process& process = Process::Get();
  return {[&process, endpoint] { return process.SocketPath(endpoint); },
          [&process, endpoint](const std::string& path, int socket) {
            return process.IsTold(endpoint, path, socket);
          }};
}

SessionWish WishOf(const Options& options) {
  SessionWish wish;
  wish.seed = static_cast<uint64_t>(options.seed);
  if (options.deterministic) wish.order = Order::kDeterministic;
  if (options.files) wish.order = Order::kFiles;
  if (!options.replay.empty()) wish.order = Order::kWanted;
  wish.homogeneous = options.homogeneous;
  wish.block_bytes = static_cast<uint64_t>(options.shuffle_bytes);
  wish.batch_records = static_cast<uint32_t>(options.batch_size);
  return wish;
}

Reader::Reader(const Options& options, SessionOptions session, const Checkpoint& checkpoint,
               ReaderParts parts)
    : options_(options),
      crc_(parts.crc),
      warn_(parts.warn),
      alone_(session.session_id.empty()),
      seed_(options.seed != 0 ? static_cast<uint64_t>(options.seed) : RandomSeed()),
      digest_id_(session.digest_id),
      restored_(checkpoint.marks.shards > 0),
      told_epoch_(std::move(parts.opened)),
      script_credit_bytes_(CreditBytes(options, checkpoint)),
      wanted_(ScriptOf(options, checkpoint).wanted),
      order_known_(checkpoint.marks.shards > 0),
      order_seed_(checkpoint.order_seed),
      epoch_(checkpoint.epoch),
      shuffled_(checkpoint.marks.shards > 0 ? checkpoint.shuffled : options.shuffle_bytes > 0),
      blocks_(CreditBytes(options) / BlockPool::kBlockBytes + 64, parts.blobs),
      pool_(PoolOptionsOf(options, session, checkpoint, seed_), checkpoint.marks, &blocks_,
            [this] { wake_.Signal(); }),
      loader_(parts.crc, &blocks_, parts.blobs, shuffled_, &stop_),
      other_loader_(parts.crc, &blocks_, parts.blobs, shuffled_, &stop_),
      intake_(&pool_, &loader_, std::thread::hardware_concurrency() > 1 ? &other_loader_ : nullptr,
              &stop_),
      client_(
          SessionOptionsOf(options, std::move(session), checkpoint, parts.zlib),
          std::move(parts.way), &pool_, &intake_, &stop_, &wake_, std::move(parts.warn),
          [this](uint64_t epoch, std::vector<uint32_t>* wanted) { return Opened(epoch, wanted); },
          [this] { WriteLog(); }) {
  loader_.set_tagged(options.tagged || options.keeps_tags);
  other_loader_.set_tagged(options.tagged || options.keeps_tags);
  if (parts.trail != nullptr) pool_.KeepTrail(std::move(parts.trail));
}

Status Reader::Opened(uint64_t epoch, std::vector<uint32_t>* wanted) {
  if (!opened_) {
    Status status = FirstOpened(epoch);
    if (!status.ok()) return status;
    opened_ = true;
  }
  for (uint32_t shard : wanted_) {
    if (pool_.Lacks(shard)) wanted->push_back(shard);
  }
  return Status();
}

// Epochs of one seed differ in order; a restored one goes on with the order and the number it began
// with.
Status Reader::FirstOpened(uint64_t epoch) {
  if (epoch_ < 0) epoch_ = static_cast<int64_t>(epoch & kMostEpoch);
  std::unique_ptr<Gate> gate;
  if (!options_.replay.empty()) {
    Status status = Replay(epoch, &gate);
    if (!status.ok()) return status;
  } else if (!order_known_) {
    order_seed_ = OrderSeed(seed_, static_cast<uint64_t>(epoch_));
    order_known_ = true;
  }
  if (InBlocks(options_)) gate = std::make_unique<BlockGate>(alone_);
  if (options_.homogeneous) gate = std::make_unique<UnitGate>();
  loader_.set_order_seed(order_seed_);
  other_loader_.set_order_seed(order_seed_);
  if (!options_.order_log.empty()) {
    OrderHeader header;
    header.restored = restored_;
    header.homogeneous = options_.homogeneous;
    header.digest_id = digest_id_;
    header.epoch = epoch;
    header.draw_seed = seed_;
    header.order_seed = order_seed_;
    header.shuffle_bytes = static_cast<uint64_t>(options_.shuffle_bytes);
    header.readahead_bytes = static_cast<uint64_t>(options_.readahead_bytes);
    header.shards = pool_.shards();
    Status status = OrderLogWriter::Create(options_.order_log, header, crc_, &log_);
    if (!status.ok()) return status;
  }
  pool_.SetOrder(std::move(gate), seed_, order_seed_, log_ != nullptr);
  if (told_epoch_) told_epoch_(epoch_);
  return Status();
}

Status Reader::Replay(uint64_t epoch, std::unique_ptr<Gate>* gate) {
  OrderLog log;
  std::string path;
  Status status = ReadOrderLog(options_.replay, epoch, crc_, &log, &path);
  if (!status.ok()) return status;
  status = CheckReplayable(log, path, digest_id_, pool_.shards(),
                           static_cast<uint64_t>(options_.shuffle_bytes),
                           static_cast<uint64_t>(options_.readahead_bytes));
  if (!status.ok()) return status;
  if (!log.whole) {
    warn_("order log " + path + " ends before its epoch does: after entry " +
          std::to_string(log.entries.size()) + " the order is no longer the one served");
  }
  seed_ = log.header.draw_seed;
  order_seed_ = log.header.order_seed;
  order_known_ = true;
  wanted_.clear();
  std::vector<bool> listed(pool_.shards());
  for (const OrderEntry& entry : log.entries) {
    if (!listed[entry.shard]) wanted_.push_back(entry.shard);
    listed[entry.shard] = true;
  }
  *gate = std::make_unique<LogGate>(std::move(log.entries));
  return Status();
}

void Reader::WriteLog() {
  if (log_ == nullptr || log_ended_) return;
  uint64_t drawn = 0;
  bool ended = false;
  const std::vector<OrderEntry> joined = pool_.TakeJoined(&drawn, &ended);
  bool written = joined.empty() || log_->Append(joined);
  if (written && ended) written = log_->End(drawn);
  log_ended_ = ended || !written;
  if (!written) {
    warn_("cannot write order log " + log_->path() + ": it ends here, and so will its replay");
  }
}

Checkpoint Reader::Where(const Trail::Mark* mark, std::vector<Step>* steps) const {
  Checkpoint checkpoint;
  checkpoint.shuffled = shuffled_;
  checkpoint.digest_id = digest_id_;
  checkpoint.marks = pool_.Snapshot(&checkpoint.script, mark, steps);
  checkpoint.script.credit_bytes = script_credit_bytes_;
  checkpoint.order_seed = order_seed_;
  checkpoint.epoch = epoch_;
  return checkpoint;
}

}  // namespace tfquiver
