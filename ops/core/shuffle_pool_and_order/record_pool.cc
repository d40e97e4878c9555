#include "ops/core/shuffle_pool_and_order/record_pool.h"

#include <algorithm>
#include <utility>

namespace tfquiver {
namespace {

constexpr Clock::time_point kNever = Clock::time_point::max();

}  // namespace

RecordPool::RecordPool(const PoolOptions& options, Marks restored, BlockPool* blocks,
                       std::function<void()> wake_feeder)
    : options_(options),
      blocks_(blocks),
      wake_feeder_(std::move(wake_feeder)),
      mixture_(options.shuffle_bytes > 0, options.seed, options.script),
      progress_(options.hold_back, std::move(restored)),
      credit_(options.capacity_bytes),
      filling_({options.shuffle_bytes, options.patience, options.longest_fill}) {}

void RecordPool::SetOrder(std::unique_ptr<Gate> gate, uint64_t draw_seed, uint64_t order_seed,
                          bool logged) {
  std::lock_guard<std::mutex> lock(mu_);
  mixture_.SetOrder(std::move(gate), draw_seed, order_seed, logged);
}

// The taker's side.

Status RecordPool::Draw(size_t want, Drawn* drawn, bool* end,
                        const std::function<void()>& before_wait, Clock::time_point until) {
  *end = false;
  bool wake = false;
  {
    std::unique_lock<std::mutex> lock(mu_);
    draw_cancelled_ = false;
    if (!meter_.begun()) meter_.Begin(Clock::now());
    if (drawn->records.empty()) {
      for (auto& block : graveyard_) blocks_->Put(std::move(block));
      graveyard_.clear();
    }
    std::function<void()> call_before_wait = before_wait;
    while (drawn->records.size() < want) {
      Status status = AwaitRecords(&lock, end, &call_before_wait, until);
      if (meter_.waits()) meter_.WaitsNoMore(Clock::now());
      if (!status.ok()) return status;
      if (*end) {
        meter_.End(Clock::now());
        break;
      }
      TakeUpTo(want, drawn);
    }
    if (!drawn->records.empty()) {
      progress_.ElementsEmitted(++elements_);
    } else {
      end_delivered_ = true;
    }
    // Not before: what goes a block at a time costs the kernel twice what it costs by the slab.
    if (ended_ && mixture_.empty()) blocks_->Close();
    wake = MustWake();
  }
  if (wake) wake_feeder_();
  return Status();
}

void RecordPool::TakeUpTo(size_t want, Drawn* drawn) {
  const size_t before = drawn->records.size();
  const Mixture::Taken taken = mixture_.Take(want - before, drawn);
  credit_.Gone(taken.raw_bytes);
  meter_.Took(drawn->records.size() - before, taken.raw_bytes);
  for (uint32_t shard : taken.spent) progress_.ShardEmitted(shard, elements_);
}

void RecordPool::Release(Drawn* drawn) {
  for (auto& block : drawn->retired) blocks_->Put(std::move(block));
  drawn->retired.clear();
  drawn->records.clear();
  drawn->positions.clear();
}

void RecordPool::CancelDraw() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    draw_cancelled_ = true;
  }
  changed_.notify_all();
}

void RecordPool::Admit() {
  if (mixture_.Admit()) told_empty_ = false;
  Heed();
}

void RecordPool::Heed() {
  if (!mixture_.error().ok() && error_.ok()) error_ = mixture_.error();
}

bool RecordPool::Filled() const {
  if (mixture_.Shut()) return false;
  return ended_ || !mixture_.fills() || filling_.Enough(credit_.here_bytes(), mixture_.joined());
}

Status RecordPool::AwaitRecords(std::unique_lock<std::mutex>* lock, bool* end,
                                std::function<void()>* before_wait, Clock::time_point deadline) {
  // A call that runs out of time does not begin the wait for a fuller pool anew.
  Filling::Time since = std::exchange(filled_for_since_, {});
  while (true) {
    Admit();
    if (!error_.ok()) return error_;
    if (mixture_.left() > 0 && Filled()) break;
    if (mixture_.left() == 0 && ended_) {
      *end = true;
      return Status();
    }
    if (draw_cancelled_) return Status(Code::kCancelled, "the iterator was cancelled");
    if (MustWake()) {
      lock->unlock();
      wake_feeder_();
      lock->lock();
      continue;
    }
    if (*before_wait) {
      lock->unlock();
      (*before_wait)();
      *before_wait = nullptr;
      lock->lock();
      continue;
    }
    if (deadline != kNever && Clock::now() >= deadline) {
      filled_for_since_ = since;
      return Status(Code::kDeadlineExceeded, "no record has come yet");
    }
    waiting_ = true;
    if (!meter_.waits()) meter_.Waits(Clock::now());
    if (mixture_.left() > 0 && !mixture_.Shut()) {
      const auto now = Clock::now();
      if (since == Filling::Time{}) since = now;
      const auto until = filling_.GiveUp(since);
      if (now >= until) break;
      changed_.wait_until(*lock, std::min(until, deadline));
    } else if (deadline != kNever) {
      changed_.wait_until(*lock, deadline);
    } else {
      changed_.wait(*lock);
    }
  }
  waiting_ = false;
  filling_.Drew();
  return Status();
}

bool RecordPool::MustWake() {
  // Where draws wait for the one shard that must come next, the node must not lack credit for it.
  const bool shut = credit_.owes() && mixture_.Shut();
  if (shut && !feeder_called_) return feeder_called_ = true;
  const bool empty_news = mixture_.left() == 0 && !ended_ && !told_empty_;
  const bool worth_it = credit_.worth_saying() || progress_.has_ackable();
  if (!empty_news && (!worth_it || feeder_called_)) return false;
  if (empty_news) told_empty_ = true;
  feeder_called_ = true;
  return true;
}

Marks RecordPool::Snapshot(Script* script, const Trail::Mark* mark,
                           std::vector<Step>* steps) const {
  std::lock_guard<std::mutex> lock(mu_);
  if (mark != nullptr) *steps = mixture_.StepsSince(*mark);
  if (script != nullptr) mixture_.RestOfScript(script);
  Marks marks = progress_.marks();
  mixture_.Mark(&marks);
  return marks;
}

bool RecordPool::end_delivered() const {
  std::lock_guard<std::mutex> lock(mu_);
  return end_delivered_;
}

void RecordPool::TakerLeaves() {
  std::lock_guard<std::mutex> lock(mu_);
  if (error_.ok()) progress_.Deliver();
}

// The feeder's side.

bool RecordPool::SetShards(uint64_t shards) {
  std::lock_guard<std::mutex> lock(mu_);
  if (!progress_.SetShards(shards)) return false;
  filling_.Expect(shards - progress_.shards_done());
  return true;
}

uint64_t RecordPool::shards() const {
  std::lock_guard<std::mutex> lock(mu_);
  return progress_.shards();
}

RecordPool::Fate RecordPool::Consider(uint32_t shard, uint64_t length_bytes, uint32_t* skip,
                                      const Place& place) {
  std::lock_guard<std::mutex> lock(mu_);
  const bool done = progress_.IsDone(shard);
  if (!done && !mixture_.Has(shard)) {
    *skip = progress_.Skip(shard);
    mixture_.Coming(place);
    return Fate::kNew;
  }
  if (done) progress_.ShardSpent(shard);
  credit_.Came(length_bytes, 0);
  mixture_.Void(shard, place);
  if (waiting_) changed_.notify_one();
  return done ? Fate::kRepeated : Fate::kAlreadyHere;
}

void RecordPool::Add(std::unique_ptr<ShardRecords> records, uint64_t length_bytes,
                     const Place& place) {
  bool notify;
  {
    std::lock_guard<std::mutex> lock(mu_);
    filling_.Arrived(Clock::now());
    credit_.Came(length_bytes, records->left_bytes());
    if (records->left() == 0) {
      progress_.ShardSpent(records->shard());
      mixture_.Void(records->shard(), place);
    } else {
      told_empty_ = false;
      mixture_.Add(std::move(records), place);
      Heed();
    }
    notify = waiting_;
  }
  if (notify) changed_.notify_one();
}

bool RecordPool::Lacks(uint32_t shard) const {
  std::lock_guard<std::mutex> lock(mu_);
  return !progress_.IsDone(shard) && !mixture_.Has(shard);
}

void RecordPool::Drop(uint32_t shard) {
  std::lock_guard<std::mutex> lock(mu_);
  std::unique_ptr<ShardRecords> records = mixture_.Drop(shard);
  if (records == nullptr) return;
  if (records->taken() > 0) progress_.ShardLeft(shard, records->taken());
  Discard(std::move(records));
}

bool RecordPool::keeps() const {
  std::lock_guard<std::mutex> lock(mu_);
  return mixture_.keeps();
}

void RecordPool::GiveBack(uint64_t length_bytes) {
  std::lock_guard<std::mutex> lock(mu_);
  credit_.Came(length_bytes, 0);
}

void RecordPool::Discard(std::unique_ptr<ShardRecords> records) {
  credit_.Gone(records->left_bytes());
  records->Discard(&graveyard_);
}

void RecordPool::End() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    ended_ = true;
    mixture_.Close();
    if (mixture_.empty()) blocks_->Close();
  }
  changed_.notify_all();
}

void RecordPool::Fail(Status status) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (error_.ok()) error_ = std::move(status);
  }
  changed_.notify_all();
}

// Whatever failed before: who repeats an error for ever must be told to stop.
void RecordPool::Cancel(const std::string& why) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    error_ = Status(Code::kCancelled, why);
  }
  changed_.notify_all();
}

RecordPool::Outbox RecordPool::TakeOutbox() {
  std::lock_guard<std::mutex> lock(mu_);
  feeder_called_ = false;
  Outbox outbox;
  outbox.acks = progress_.TakeAckable();
  outbox.empty = mixture_.empty();
  if (credit_.worth_saying() || outbox.empty || mixture_.Starved()) {
    outbox.credit_bytes = credit_.Pay();
  }
  return outbox;
}

Report RecordPool::Metered() {
  std::lock_guard<std::mutex> lock(mu_);
  const auto now = Clock::now();
  // Keras counts its steps, and does not ask for the end.
  if (ended_ && mixture_.empty()) meter_.End(now);
  return meter_.At(now);
}

std::vector<uint32_t> RecordPool::Held() {
  std::lock_guard<std::mutex> lock(mu_);
  for (auto& records : mixture_.GiveUp()) Discard(std::move(records));
  std::vector<uint32_t> held = progress_.Unacked();
  const std::vector<uint32_t> here = mixture_.Shards();
  held.insert(held.end(), here.begin(), here.end());
  return held;
}

uint64_t RecordPool::RestartCredit() {
  std::lock_guard<std::mutex> lock(mu_);
  credit_.Restart();
  return credit_.here_bytes();
}

std::vector<OrderEntry> RecordPool::TakeJoined(uint64_t* drawn, bool* all) {
  std::lock_guard<std::mutex> lock(mu_);
  *drawn = mixture_.drawn();
  *all = ended_ && mixture_.empty();
  return mixture_.TakeJoined();
}

}  // namespace tfquiver
