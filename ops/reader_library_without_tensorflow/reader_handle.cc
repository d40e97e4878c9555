#include "ops/reader_library_without_tensorflow/reader_handle.h"

#include <algorithm>
#include <utility>

#include "ops/core/bytes_checksums_tfrecords/crc32c.h"
#include "ops/core/clock.h"
#include "ops/core/node_messages_socket_tickets/ticket_client.h"
#include "ops/core/shuffle_pool_and_order/random.h"
#include "ops/core/told_by_python/process.h"
#include "ops/reader_library_without_tensorflow/python_zlib.h"

namespace tfquiver {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTicketCall{1000};
constexpr milliseconds kFirstPause{20};
constexpr milliseconds kLongestPause{1000};
constexpr size_t kMostWarnings = 32;

}  // namespace

ReaderHandle::ReaderHandle(Options options, SessionOptions session, Sharing sharing,
                           Checkpoint start)
    : options_(std::move(options)),
      session_(std::move(session)),
      sharing_(std::move(sharing)),
      start_(std::move(start)),
      ended_(start_.ended) {
  if (sharing_.provider_id.empty()) reader_ = MakeReader("");
  if (!ended_) thread_ = std::thread([this] { Run(); });
}

ReaderHandle::~ReaderHandle() {
  Stop();
  if (thread_.joinable()) thread_.join();
  if (reader_ != nullptr) reader_->pool().Release(&drawn_);
}

Status ReaderHandle::Next(milliseconds wait, bool contiguous, TfqBatch* batch, bool* end) {
  const auto until = Clock::now() + wait;
  *end = ended_;
  if (ended_) return Status();
  {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait_until(
        lock, until, [this] { return stopped_ || over_ || !failed_.ok() || reader_ != nullptr; });
    if (stopped_) return Status(Code::kCancelled, "this reader was closed");
    if (!failed_.ok()) return failed_;
    if (over_) {
      *end = ended_ = true;
      return Status();
    }
    if (reader_ == nullptr) return Status(Code::kDeadlineExceeded, "there is no ticket yet");
  }
  const auto want = static_cast<size_t>(std::max<int64_t>(options_.batch_size, 1));
  bool over = false;
  const Status drew = reader_->pool().Draw(want, &drawn_, &over, {}, until);
  if (!drew.ok()) return drew;
  ended_ = over && (drawn_.records.empty() || options_.drop_remainder);
  *end = ended_;
  if (!ended_) *batch = MakeBatch(&drawn_, contiguous);
  reader_->pool().Release(&drawn_);
  return Status();
}

Status ReaderHandle::Position(std::string* position) {
  Checkpoint where = start_;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!drawn_.records.empty()) {
      return Status(Code::kFailedPrecondition,
                    "a batch was interrupted half-way: take it, then ask for the state");
    }
    if (reader_ != nullptr) where = reader_->Where();
  }
  where.ended = ended_;
  where.digest_id = session_.digest_id;
  *position = WriteCheckpoint(where, FastestCrc32c(&PortableCrc32c), PythonZlibCodec());
  return Status();
}

std::string ReaderHandle::Warning() {
  std::lock_guard<std::mutex> lock(mu_);
  if (warnings_.empty()) return "";
  std::string first = std::move(warnings_.front());
  warnings_.pop_front();
  return first;
}

void ReaderHandle::Stop() {
  std::lock_guard<std::mutex> lock(mu_);
  stopped_ = true;
  changed_.notify_all();
  if (reader_ != nullptr) {
    // Not its pool's Cancel: what was taken is acknowledged when the reader leaves.
    reader_->pool().CancelDraw();
    reader_->Stop();
  }
}

void ReaderHandle::Run() {
  if (!sharing_.provider_id.empty()) {
    std::string session_id;
    bool over = false;
    const Status status = TakeTicket(&session_id, &over);
    std::lock_guard<std::mutex> lock(mu_);
    changed_.notify_all();
    if (stopped_) return;
    failed_ = status;
    over_ = over;
    if (over || !status.ok()) return;
    reader_ = MakeReader(std::move(session_id));
  }
  reader_->Run();
}

Status ReaderHandle::TakeTicket(std::string* session_id, bool* end) {
  TicketFields ticket;
  ticket.session_key = session_.session_key;
  ticket.provider_id = sharing_.provider_id;
  ticket.asker = sharing_.adopts ? Asker::kJoiner : Asker::kProvider;
  ticket.digest_id = session_.digest_id;
  ticket.job = options_.job;
  ticket.wish = WishOf(options_);
  if (options_.deterministic && start_.epoch >= 0) {
    ticket.wish.order_seed = OrderSeed(ticket.wish.seed, static_cast<uint64_t>(start_.epoch));
  }
  const auto give_up_at = Clock::now() + std::max(milliseconds(options_.connect_ms),
                                                  milliseconds(options_.reconnect_ms));
  milliseconds pause = kFirstPause;
  while (true) {
    TicketReply reply;
    const Status asked = AskForTicket(Process::Get().SocketPath(options_.endpoint), session_.label,
                                      ticket, kTicketCall, &reply);
    if (asked.ok()) {
      *session_id = std::move(reply.session_id);
      *end = reply.end;
      return Status();
    }
    std::unique_lock<std::mutex> lock(mu_);
    if (asked.code() != Code::kUnavailable || Clock::now() + pause >= give_up_at) return asked;
    if (changed_.wait_for(lock, pause, [this] { return stopped_; })) return asked;
    pause = std::min(2 * pause, kLongestPause);
  }
}

std::unique_ptr<Reader> ReaderHandle::MakeReader(std::string session_id) {
  SessionOptions session = session_;
  session.session_id = std::move(session_id);
  session.reader_id = UniqueId();
  ReaderParts parts;
  parts.crc = FastestCrc32c(&PortableCrc32c);
  parts.zlib = PythonZlibCodec();
  parts.warn = [this](const std::string& message) { Warn(message); };
  parts.way = WayTo(options_.endpoint);
  return std::make_unique<Reader>(options_, std::move(session), start_, std::move(parts));
}

void ReaderHandle::Warn(const std::string& message) {
  std::lock_guard<std::mutex> lock(mu_);
  if (warnings_.size() < kMostWarnings) warnings_.push_back(message);
}

}  // namespace tfquiver
