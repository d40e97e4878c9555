#include "ops/core/reader_and_its_conversation_with_the_node/session_client.h"

#include <poll.h>

#include <algorithm>
#include <new>
#include <utility>

#include "ops/core/reader_and_its_conversation_with_the_node/memory_file.h"

namespace tfquiver {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kMostShards = uint64_t{1} << 28;
constexpr int kMostBad = 5;
constexpr size_t kMostUnread = 1024;  // frames thrown away at the end
constexpr milliseconds kFirstPause{20};
constexpr milliseconds kLongestPause{1000};

}  // namespace

SessionClient::SessionClient(SessionOptions options, NodeWay way, RecordPool* pool,
                             ShardIntake* intake, std::atomic<bool>* stop, const WakeFd* wake,
                             std::function<void(const std::string&)> warn, OnOpened on_opened,
                             std::function<void()> on_turn)
    : options_(std::move(options)),
      way_(std::move(way)),
      pool_(pool),
      intake_(intake),
      stop_(stop),
      wake_(wake),
      warn_(warn),
      on_opened_(std::move(on_opened)),
      on_turn_(std::move(on_turn)),
      node_(stop, wake, std::move(warn)),
      protocol_(&options_),
      silence_(options_.silence) {}

void SessionClient::Stop() {
  stop_->store(true);
  wake_->Signal();
}

void SessionClient::Run() {
  try {
    RunOn();
  } catch (const std::bad_alloc&) {
    Fatal(Status(Code::kResourceExhausted,
                 "no memory for records: give the reader less (shuffle_bytes, readahead_bytes), or "
                 "the process more (ulimit -v, vm.max_map_count)"));
  }
}

void SessionClient::RunOn() {
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
      trouble_.clear();
      away_for_ = Clock::duration::zero();
      if (Serve() == Turn::kDone) break;
      // A node that goes away as soon as it is asked does not get more time each time.
      const auto now = Clock::now();
      if (!lost_before || protocol_.shards_received() > 0 ||
          now - opened_at > std::chrono::seconds(1)) {
        deadline = now + std::max(options_.reconnect - away_for_, Clock::duration::zero());
        pause = kFirstPause;
      }
      lost_before = true;
      if (now >= deadline) {
        Fatal(Status(Code::kUnavailable,
                     trouble_.empty() ? "the tfquiver node at " + node_.path() + " keeps hanging up"
                                      : trouble_));
        break;
      }
      warn_("lost the node at " + node_.path() + "; connecting again");
    } else if (status.code() != Code::kUnavailable || Clock::now() + pause >= deadline) {
      // No time for another try: this one says why.
      Fatal(status);
      break;
    }
    node_.socket().Close();
    protocol_.Disconnected();
    intake_->Forget();
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
  const std::string path = way_.socket_path();
  if (path.empty()) {
    return Status(
        Code::kFailedPrecondition,
        "this process knows no tfquiver node: give tfquiver.dataset(...) the cache_dir= of this "
        "machine's node, in a cluster beside service=, or read through workers with "
        ".apply(tfquiver.distribute(...))");
  }
  const Role role = options_.in_turn ? Role::kReaderInTurn : Role::kReader;
  Status status = node_.Dial(path, role, options_.label, deadline);
  if (!status.ok()) return status;
  if (way_.is_told && !way_.is_told(path, node_.socket().get())) {
    return Status(Code::kUnavailable,
                  "the tfquiver node at " + path +
                      " was started again, and this process has not told it yet what it must know "
                      "of it: the log says why, or Python has had no turn, because something in "
                      "this process holds its interpreter lock");
  }
  // The node is there; it may have to wait for its coordinator.
  deadline = std::max(deadline, Clock::now() + options_.reconnect);
  status = SayOpen(deadline);
  if (!status.ok()) return status;
  Opened opened;
  status = HearOpened(deadline, &opened);
  if (!status.ok()) return status;
  if (opened.shards > kMostShards || !pool_->SetShards(opened.shards)) {
    return Status(Code::kFailedPrecondition,
                  "the tfquiver node at " + path + " says that the number of shards is " +
                      std::to_string(opened.shards) +
                      ", which is not what the checkpoint or an earlier node said");
  }
  std::vector<uint32_t> wanted;
  status = on_opened_(opened.epoch, &wanted);
  if (status.ok()) {
    protocol_.OnOpened(std::move(opened), wanted);
    protocol_.Ask();
    silence_.Connected(Clock::now());
  }
  return status;
}

Status SessionClient::SayOpen(Clock::time_point deadline) {
  std::vector<uint32_t> held;
  if (protocol_.opened()) held = pool_->Held();
  const SessionProtocol::Opening opening = protocol_.Open(std::move(held), pool_->RestartCredit());
  UniqueFd state;
  if (opening.has_state) {
    state = MemoryOf(options_.done_zlib);
    if (!state.valid()) {
      return Status(Code::kResourceExhausted, "no memory file for the checkpoint");
    }
  }
  for (const std::string& frame : opening.frames) {
    const bool last = &frame == &opening.frames.back();
    Status status = node_.Say(frame, last ? state.get() : -1, deadline);
    if (!status.ok()) return status;
  }
  return Status();
}

Status SessionClient::HearOpened(Clock::time_point deadline, Opened* opened) {
  while (true) {
    NodeFrame frame;
    UniqueFd fd;
    Status status = node_.Hear(&frame, &fd, deadline);
    if (!status.ok()) return status;
    if (auto* dropped = std::get_if<Dropped>(&frame)) {
      Drop(*dropped);
      continue;
    }
    auto* heard = std::get_if<Opened>(&frame);
    if (heard == nullptr) return node_.Broken("no OPENED");
    *opened = std::move(*heard);
    return Status();
  }
}

SessionClient::Turn SessionClient::Serve() {
  while (!stop_->load()) {
    wake_->Clear();
    if (stop_->load()) break;  // its signal may be the one just cleared
    if (!protocol_.ended()) Collect();
    on_turn_();
    const auto now = Clock::now();
    if (now >= protocol_.report_at()) ReportNow(now);
    if (!Flush()) return protocol_.ended() ? Turn::kDone : Turn::kLost;
    const Turn turn = ReceiveAll();
    if (turn == Turn::kLost && protocol_.ended()) {
      node_.socket().Close();
      return Turn::kDone;
    }
    if (turn != Turn::kOn) return turn;
    if (!intake_->empty()) {
      if (LoadOne() == Turn::kDone) return Turn::kDone;
      continue;
    }
    if (!protocol_.ended() && LookWhetherSilent()) return Turn::kLost;
    const short events = protocol_.outgoing().empty() ? POLLIN : POLLIN | POLLOUT;
    const auto next = std::min(protocol_.report_at(), silence_.look_at());
    Wait(node_.socket().get(), events, wake_->get(), std::min(now + std::chrono::minutes(1), next));
  }
  return Turn::kDone;
}

// Whether the node has been silent for so long that it has gone.
bool SessionClient::LookWhetherSilent() {
  const auto seconds = [this] {
    return std::to_string(
               std::chrono::duration_cast<std::chrono::seconds>(silence_.silent_for()).count()) +
           " s";
  };
  switch (silence_.Look(Clock::now())) {
    case NodeSilence::Next::kWait:
      return false;
    case NodeSilence::Next::kAsk:
      protocol_.Ask();
      return false;
    case NodeSilence::Next::kSay:
      warn_("the tfquiver node at " + node_.path() + " has not answered for " + seconds() +
            ": it is stopped, or hangs; waiting for it");
      return false;
    case NodeSilence::Next::kGiveUp:
      break;
  }
  trouble_ = "the tfquiver node at " + node_.path() + " has not answered for " + seconds() +
             ": it is stopped, or hangs (its log may say why)";
  away_for_ = silence_.silent_for();
  return true;
}

void SessionClient::Heard(bool answer) {
  if (silence_.Heard(answer)) warn_("the tfquiver node at " + node_.path() + " answers again");
}

SessionClient::Turn SessionClient::ReceiveAll() {
  while (!intake_->full()) {
    UniqueFd fd;
    switch (node_.socket().Receive(&buffer_, &fd)) {
      case UnixSocket::Outcome::kAgain:
        return Turn::kOn;
      case UnixSocket::Outcome::kLost:
        return Turn::kLost;
      case UnixSocket::Outcome::kOutOfDescriptors:
        trouble_ = node_.OutOfDescriptors().message();
        warn_(trouble_);
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
    Heard(std::holds_alternative<Pong>(frame));
    const Turn turn = Handle(std::move(frame), std::move(fd));
    if (turn != Turn::kOn) return turn;
  }
  return Turn::kOn;
}

SessionClient::Turn SessionClient::Handle(NodeFrame frame, UniqueFd fd) {
  if (auto* shard = std::get_if<ShardFrame>(&frame)) {
    const Status valid = protocol_.OnShard(shard);
    if (!valid.ok()) return Fatal(node_.Broken(valid.message()));
    intake_->Accept(std::move(*shard), std::move(fd));
    return Turn::kOn;
  }
  if (auto* picks = std::get_if<PicksFrame>(&frame)) {
    const Status valid = protocol_.OnPicks(std::move(*picks));
    return valid.ok() ? Turn::kOn : Fatal(node_.Broken(valid.message()));
  }
  if (std::holds_alternative<End>(frame)) {
    protocol_.OnEnd();
    while (!intake_->empty()) {
      if (LoadOne() == Turn::kDone) return Turn::kDone;
    }
    pool_->End();
    return Turn::kOn;
  }
  if (auto* dropped = std::get_if<Dropped>(&frame)) {
    Drop(*dropped);
    return Turn::kOn;
  }
  if (auto* pong = std::get_if<Pong>(&frame)) {
    protocol_.OnPong(*pong);
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
  const ShardIntake::Result loaded = intake_->LoadNext();
  switch (loaded.outcome) {
    case ShardIntake::Outcome::kPooled:
    case ShardIntake::Outcome::kNotNeeded:
      protocol_.Loaded(loaded.shard);
      return Turn::kOn;
    case ShardIntake::Outcome::kStopped:
      return Turn::kDone;
    case ShardIntake::Outcome::kBad:
      break;
  }
  const std::string what = "shard " + std::to_string(loaded.shard) + " from the tfquiver node at " +
                           node_.path() + " cannot be used: " + loaded.why;
  if (loaded.times_bad >= kMostBad) {
    return Fatal(
        Status(Code::kDataLoss, what + "; it came " + std::to_string(loaded.times_bad) + " times"));
  }
  warn_(what + "; asking for it again");
  protocol_.Bad(loaded.shard, loaded.length_bytes);
  return Turn::kOn;
}

// Wherever a shard is on its way: in the pool, come and not loaded, or damaged and awaited again.
void SessionClient::Drop(const Dropped& dropped) {
  for (uint32_t shard : dropped.shards) {
    pool_->Drop(shard);
    if (intake_->Drop(shard)) {
      protocol_.Loaded(shard);
    } else {
      pool_->GiveBack(protocol_.Dropped(shard));
    }
  }
  wake_->Signal();  // before the next wait this is to be told: credit, and perhaps DRAINING
}

void SessionClient::Collect() {
  const RecordPool::Outbox outbox = pool_->TakeOutbox();
  protocol_.Tell(outbox.acks, outbox.credit_bytes, outbox.empty && intake_->empty(), Clock::now());
}

void SessionClient::ReportNow(Clock::time_point now) { protocol_.SayReport(pool_->Metered(), now); }

// False when the node is gone.
bool SessionClient::Flush() {
  std::deque<std::string>& outgoing = protocol_.outgoing();
  while (!outgoing.empty()) {
    switch (node_.socket().Send(outgoing.front())) {
      case UnixSocket::Outcome::kDone:
        outgoing.pop_front();
        break;
      case UnixSocket::Outcome::kAgain:
        return true;
      case UnixSocket::Outcome::kLost:
      case UnixSocket::Outcome::kOutOfDescriptors:  // only where something is received
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
  if (node_.socket().open() && protocol_.opened()) {
    // Whoever leaves without having taken the end may still have all the records: Keras, which
    // counts its steps, does not ask for it.
    const bool ended = protocol_.ended() && pool_->end_delivered();
    if (!ended) {
      Collect();
      protocol_.SayLeaving();
      pool_->TakerLeaves();
      Collect();
    }
    if (protocol_.report_at() != Clock::time_point::max()) ReportNow(Clock::now());
    protocol_.SayClose(ended && pool_->acks());
    Flush();
    // A socket that is closed with frames unread resets the connection, and CLOSE might not be
    // read.
    UniqueFd fd;
    for (size_t i = 0; i < kMostUnread; ++i) {
      if (node_.socket().Receive(&buffer_, &fd) != UnixSocket::Outcome::kDone) break;
    }
  }
  intake_->Forget();
  node_.socket().Close();
}

}  // namespace tfquiver
