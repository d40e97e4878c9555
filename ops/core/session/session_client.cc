#include "ops/core/session/session_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tfquiver {
namespace {

using std::chrono::milliseconds;

// Descriptors in hand: the kernel reads ahead for them while others are loaded.
constexpr size_t kMostArrived = 8;
constexpr uint64_t kMostShards = uint64_t{1} << 28;
constexpr int kMostBad = 5;
constexpr size_t kMostUnread = 1024;  // frames thrown away at the end
// Acks that a node which dies may not have passed on; they are said again to the next one.
constexpr std::chrono::seconds kAckMemory{30};
constexpr size_t kMostRecentAcks = 1 << 20;
constexpr milliseconds kFirstPause{20};
constexpr milliseconds kLongestPause{1000};

// Memory with `bytes` in it, to pass to the node.
UniqueFd MemoryOf(const std::string& bytes) {
  UniqueFd fd(::memfd_create("tfquiver-done", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fd;
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (wrote <= 0) return UniqueFd();
    done += static_cast<size_t>(wrote);
  }
  ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return fd;
}

}  // namespace

SessionClient::SessionClient(SessionOptions options, std::function<std::string()> socket_path,
                             RecordPool* pool, ShardLoader* loader, std::atomic<bool>* stop,
                             const WakeFd* wake, std::function<void(const std::string&)> warn,
                             OnOpened on_opened, std::function<void()> on_turn)
    : options_(std::move(options)),
      socket_path_(std::move(socket_path)),
      pool_(pool),
      loader_(loader),
      stop_(stop),
      wake_(wake),
      warn_(warn),
      on_opened_(std::move(on_opened)),
      on_turn_(std::move(on_turn)),
      node_(stop, wake, std::move(warn)),
      session_id_(options_.session_id) {}

void SessionClient::Stop() {
  stop_->store(true);
  wake_->Signal();
}

void SessionClient::Run() {
  if (wake_->get() < 0) {
    // Without it nobody could end this thread's waits.
    Fatal(Status(Code::kResourceExhausted,
                 "no event descriptor: too many open files in this process (ulimit -n)"));
    return;
  }
  auto deadline = Clock::now() + options_.connect;
  milliseconds pause = kFirstPause;
  bool lost_before = false;
  while (!stop_->load()) {
    const Status status = Open(deadline);
    if (status.ok()) {
      const auto opened_at = Clock::now();
      if (Serve() == Turn::kDone) break;
      // A node that goes away as soon as it is asked does not get more time each time.
      const auto now = Clock::now();
      if (!lost_before || frames_received_ > 0 || now - opened_at > std::chrono::seconds(1)) {
        deadline = now + options_.reconnect;
        pause = kFirstPause;
      }
      lost_before = true;
      if (now >= deadline) {
        Fatal(Status(Code::kUnavailable,
                     "the tfquiver node at " + node_.path() + " keeps hanging up"));
        break;
      }
      warn_("lost the node at " + node_.path() + "; connecting again");
    } else if (status.code() != Code::kUnavailable || Clock::now() + pause >= deadline) {
      // No time for another try: this one says why.
      Fatal(status);
      break;
    }
    node_.socket().Close();
    outgoing_.clear();
    arrived_.clear();
    awaited_.clear();
    const auto until = std::min(deadline, Clock::now() + pause);
    while (!stop_->load() && Clock::now() < until) {
      Wait(-1, 0, wake_->get(), until);
      wake_->Clear();
    }
    pause = std::min(pause * 2, kLongestPause);
  }
  GoodBye();
}

Status SessionClient::Open(Clock::time_point deadline) {
  const std::string path = socket_path_();
  if (path.empty()) {
    return Status(
        Code::kFailedPrecondition,
        "this process knows no tfquiver node: call tfquiver.dataset(...) with a cache_dir "
        "of this machine, or run the pipeline in a tfquiver-worker");
  }
  frames_received_ = 0;
  drained_at_ = ~uint64_t{0};
  Status status = node_.Dial(path, Role::kReader, options_.label, deadline);
  if (!status.ok()) return status;
  // The node is there; it may have to wait for its coordinator.
  deadline = std::max(deadline, Clock::now() + options_.reconnect);
  std::vector<uint32_t> again;
  if (opened_) {
    std::vector<uint32_t> held = pool_->Held();
    for (const auto& [when, shard] : recent_acks_) again.push_back(shard);
    held.insert(held.end(), again.begin(), again.end());
    for (const std::string& part : EncodeHeld(held)) {
      status = node_.Say(part, -1, deadline);
      if (!status.ok()) return status;
    }
  }
  status = SayOpen(deadline);
  if (!status.ok()) return status;
  NodeFrame frame;
  UniqueFd fd;
  while (true) {
    status = node_.Hear(&frame, &fd, deadline);
    if (!status.ok()) return status;
    auto* dropped = std::get_if<Dropped>(&frame);
    if (dropped == nullptr) break;
    for (uint32_t shard : dropped->shards) pool_->Drop(shard);
  }
  auto* opened = std::get_if<Opened>(&frame);
  if (opened == nullptr) return node_.Broken("no OPENED");
  if (opened->shards > kMostShards || !pool_->SetShards(opened->shards)) {
    return Status(Code::kFailedPrecondition,
                  "the tfquiver node at " + path + " says that the data set has " +
                      std::to_string(opened->shards) +
                      " shards, which is not what the checkpoint or an earlier node said");
  }
  std::vector<uint32_t> wanted;
  status = on_opened_(opened->epoch, &wanted);
  if (!status.ok()) return status;
  if (options_.wish.order == Order::kWanted) {
    for (std::string& part : EncodeWants(wanted)) outgoing_.push_back(std::move(part));
  }
  session_id_ = opened->session_id;
  session_ = std::move(*opened);
  opened_ = true;
  for (std::string& part : EncodeAcks(again)) outgoing_.push_back(std::move(part));
  return Status();
}

Status SessionClient::SayOpen(Clock::time_point deadline) {
  // The node counts anew: what is here is not part of the credit.
  const uint64_t here_bytes = pool_->RestartCredit();
  const uint64_t used_bytes = std::min(options_.credit_bytes, here_bytes);
  credit_debt_bytes_ = here_bytes - used_bytes;
  OpenFields open;
  open.session_id = session_id_;
  open.session_key = options_.session_key;
  open.digest_id = options_.digest_id;
  open.job = options_.job;
  open.reader_id = options_.reader_id;
  open.credit_bytes = options_.credit_bytes - used_bytes;
  open.wish = options_.wish;
  open.has_state = !opened_ && !options_.done_zlib.empty();
  UniqueFd state;
  if (open.has_state) {
    state = MemoryOf(options_.done_zlib);
    if (!state.valid()) {
      return Status(Code::kResourceExhausted, "no memory file for the checkpoint");
    }
  }
  return node_.Say(EncodeOpen(open), state.get(), deadline);
}

SessionClient::Turn SessionClient::Serve() {
  while (!stop_->load()) {
    wake_->Clear();
    if (stop_->load()) break;  // its signal may be the one just cleared
    if (!ended_) CollectOutbox();
    on_turn_();
    if (!Flush()) return ended_ ? Turn::kDone : Turn::kLost;
    const Turn turn = ReceiveAll();
    if (turn == Turn::kLost && ended_) {
      node_.socket().Close();
      return Turn::kDone;
    }
    if (turn != Turn::kOn) return turn;
    if (!arrived_.empty()) {
      if (LoadOne() == Turn::kDone) return Turn::kDone;
      continue;
    }
    const short events = outgoing_.empty() ? POLLIN : POLLIN | POLLOUT;
    Wait(node_.socket().get(), events, wake_->get(), Clock::now() + std::chrono::minutes(1));
  }
  return Turn::kDone;
}

SessionClient::Turn SessionClient::ReceiveAll() {
  while (arrived_.size() < kMostArrived) {
    UniqueFd fd;
    switch (node_.socket().Receive(&buffer_, &fd)) {
      case UnixSocket::Outcome::kAgain:
        return Turn::kOn;
      case UnixSocket::Outcome::kLost:
        return Turn::kLost;
      case UnixSocket::Outcome::kDone:
        break;
    }
    NodeFrame frame;
    Status status = Decode(buffer_, &frame);
    if (!status.ok()) {
      node_.Say(EncodeError(status.code(), true, status.message()), -1, Clock::now()).ok();
      return Fatal(Status(status.code(), "the tfquiver node at " + node_.path() +
                                             " broke the protocol: " + status.message()));
    }
    const Turn turn = Handle(std::move(frame), std::move(fd));
    if (turn != Turn::kOn) return turn;
  }
  return Turn::kOn;
}

SessionClient::Turn SessionClient::Handle(NodeFrame frame, UniqueFd fd) {
  if (auto* shard = std::get_if<ShardFrame>(&frame)) {
    ++frames_received_;
    const Status valid = Validate(*shard, options_.wish, session_);
    if (!valid.ok()) return Fatal(node_.Broken(valid.message()));
    if (fd.valid()) {
      ::posix_fadvise(fd.get(), static_cast<off_t>(shard->offset),
                      static_cast<off_t>(shard->length_bytes), POSIX_FADV_WILLNEED);
    }
    arrived_.emplace_back(*shard, std::move(fd));
    return Turn::kOn;
  }
  if (std::holds_alternative<End>(frame)) {
    ended_ = true;
    while (!arrived_.empty()) {
      if (LoadOne() == Turn::kDone) return Turn::kDone;
    }
    outgoing_.clear();
    pool_->End();
    return Turn::kOn;
  }
  if (auto* dropped = std::get_if<Dropped>(&frame)) {
    for (uint32_t shard : dropped->shards) pool_->Drop(shard);
    return Turn::kOn;
  }
  if (auto* error = std::get_if<ErrorFrame>(&frame)) {
    if (error->fatal) return Fatal(Status(error->code, error->message));
    warn_(error->message);
    return Turn::kOn;
  }
  return Fatal(node_.Broken("a frame out of turn"));
}

SessionClient::Turn SessionClient::LoadOne() {
  const auto [frame, fd] = std::move(arrived_.front());
  arrived_.pop_front();
  uint32_t skip = 0;
  if (pool_->Consider(frame.shard, frame.length_bytes, &skip, frame.place) !=
      RecordPool::Fate::kNew) {
    awaited_.erase(frame.shard);
    return Turn::kOn;
  }
  std::string why;
  std::unique_ptr<ShardRecords> records = loader_->Load(frame, fd, skip, &why);
  if (records != nullptr) {
    awaited_.erase(frame.shard);
    pool_->Add(std::move(records), frame.length_bytes, frame.place);
    return Turn::kOn;
  }
  if (stop_->load()) return Turn::kDone;
  const int times = ++times_bad_[frame.shard];
  const std::string what = "shard " + std::to_string(frame.shard) + " from the tfquiver node at " +
                           node_.path() + " cannot be used: " + why;
  if (times >= kMostBad) {
    return Fatal(Status(Code::kDataLoss, what + "; it came " + std::to_string(times) + " times"));
  }
  warn_(what + "; asking for it again");
  awaited_.insert(frame.shard);
  outgoing_.push_back(EncodeBad(frame.shard));
  return Turn::kOn;
}

void SessionClient::CollectOutbox() {
  RecordPool::Outbox outbox = pool_->TakeOutbox();
  const auto now = Clock::now();
  for (std::string& frame : EncodeAcks(outbox.acks)) outgoing_.push_back(std::move(frame));
  for (uint32_t shard : outbox.acks) recent_acks_.emplace_back(now, shard);
  while (!recent_acks_.empty() &&
         (now - recent_acks_.front().first > kAckMemory || recent_acks_.size() > kMostRecentAcks)) {
    recent_acks_.pop_front();
  }
  const uint64_t repaid = std::min(credit_debt_bytes_, outbox.credit_bytes);
  credit_debt_bytes_ -= repaid;
  if (outbox.credit_bytes > repaid) {
    outgoing_.push_back(EncodeCredit(outbox.credit_bytes - repaid));
  }
  if (outbox.empty && arrived_.empty() && awaited_.empty() && drained_at_ != frames_received_) {
    drained_at_ = frames_received_;
    outgoing_.push_back(EncodeDraining(frames_received_));
  }
}

// False when the node is gone.
bool SessionClient::Flush() {
  while (!outgoing_.empty()) {
    switch (node_.socket().Send(outgoing_.front())) {
      case UnixSocket::Outcome::kDone:
        outgoing_.pop_front();
        break;
      case UnixSocket::Outcome::kAgain:
        return true;
      case UnixSocket::Outcome::kLost:
        return false;
    }
  }
  return true;
}

SessionClient::Turn SessionClient::Fatal(Status status) {
  if (!stop_->load()) pool_->Fail(std::move(status));
  return Turn::kDone;
}

// Says CLOSE without waiting: a node that does not listen learns it from the closed socket.
void SessionClient::GoodBye() {
  on_turn_();
  if (node_.socket().open() && opened_) {
    if (!ended_) {
      CollectOutbox();
      outgoing_.push_back(EncodeLeaving());
      pool_->TakerLeaves();
      CollectOutbox();
    }
    outgoing_.push_back(EncodeClose(ended_ && pool_->end_delivered() && pool_->acks()));
    Flush();
    // A socket that is closed with frames unread resets the connection, and CLOSE might not be
    // read.
    UniqueFd fd;
    for (size_t i = 0; i < kMostUnread; ++i) {
      if (node_.socket().Receive(&buffer_, &fd) != UnixSocket::Outcome::kDone) break;
    }
  }
  arrived_.clear();
  node_.socket().Close();
}

}  // namespace tfquiver
