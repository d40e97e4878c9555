#include "ops/core/record_pool.h"

#include <algorithm>
#include <utility>

#include "ops/core/tfrecord.h"

namespace tfquiver {

RecordPool::RecordPool(const PoolOptions& options, Marks restored, BlockPool* blocks,
                       BlobFactory* blobs, std::function<void()> wake_feeder)
    : options_(options),
      credit_quantum_bytes_(std::clamp<uint64_t>(options.capacity_bytes / 16, 1, 1 << 20)),
      blocks_(blocks),
      blobs_(blobs),
      wake_feeder_(std::move(wake_feeder)),
      progress_(options.hold_back, std::move(restored)),
      random_(options.seed) {}

RecordPool::~RecordPool() = default;

// The taker's side.

Status RecordPool::Draw(size_t want, Drawn* drawn, bool* end,
                        const std::function<void()>& before_wait) {
  *end = false;
  bool wake = false;
  {
    std::unique_lock<std::mutex> lock(mu_);
    draw_cancelled_ = false;
    if (drawn->records.empty()) {
      for (auto& block : graveyard_) blocks_->Put(std::move(block));
      graveyard_.clear();
    }
    std::function<void()> call_before_wait = before_wait;
    while (drawn->records.size() < want) {
      Status status = AwaitRecords(&lock, end, &call_before_wait);
      if (!status.ok()) return status;
      if (*end) break;
      const size_t now = std::min<size_t>(want - drawn->records.size(), records_);
      for (size_t i = 0; i < now; ++i) TakeOne(drawn);
    }
    if (!drawn->records.empty()) {
      progress_.ElementsEmitted(++elements_);
    } else {
      end_delivered_ = true;
    }
    wake = MustWake();
  }
  if (wake) wake_feeder_();
  return Status();
}

void RecordPool::Release(Drawn* drawn) {
  for (auto& block : drawn->retired) blocks_->Put(std::move(block));
  drawn->retired.clear();
  drawn->records.clear();
}

bool RecordPool::Filled() const {
  if (ended_ || shards_expected_ == 0) return true;
  // Once full, a pool that is being refilled may fall to half before draws wait for it again.
  const uint64_t enough = filled_once_ ? options_.shuffle_bytes / 2 : options_.shuffle_bytes;
  return pooled_bytes_ >= enough;
}

void RecordPool::CancelDraw() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    draw_cancelled_ = true;
  }
  changed_.notify_all();
}

Status RecordPool::AwaitRecords(std::unique_lock<std::mutex>* lock, bool* end,
                                std::function<void()>* before_wait) {
  std::chrono::steady_clock::time_point give_up{};
  while (true) {
    if (!error_.ok()) return error_;
    if (records_ > 0 && Filled()) break;
    if (records_ == 0 && ended_) {
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
    waiting_ = true;
    if (records_ > 0) {
      const auto now = std::chrono::steady_clock::now();
      if (give_up.time_since_epoch().count() == 0) give_up = now + options_.longest_fill;
      const auto until = std::min(give_up, last_arrival_ + options_.patience);
      if (now >= until) break;
      changed_.wait_until(*lock, until);
    } else {
      changed_.wait(*lock);
    }
  }
  waiting_ = false;
  filled_once_ = true;
  return Status();
}

void RecordPool::TakeOne(Drawn* drawn) {
  uint32_t slot_number;
  if (options_.shuffle_bytes > 0) {
    const uint64_t index = random_.Below(tickets_.size());
    slot_number = tickets_[index];
    tickets_[index] = tickets_.back();
    tickets_.pop_back();
  } else {
    slot_number = queue_.front();
  }
  ShardRecords& shard = *slots_[slot_number];
  drawn->records.push_back(shard.Take(&drawn->retired));
  const uint64_t raw_bytes = drawn->records.back().size + kRecordFramingBytes;
  pooled_bytes_ -= raw_bytes;
  owed_credit_bytes_ += raw_bytes;
  --records_;
  if (shard.left() == 0) Finish(slot_number);
}

void RecordPool::Finish(uint32_t slot_number) {
  const uint32_t shard = slots_[slot_number]->shard();
  progress_.ShardEmitted(shard, elements_);
  slot_of_.erase(shard);
  slots_[slot_number].reset();
  free_slots_.push_back(slot_number);
  if (options_.shuffle_bytes == 0) queue_.pop_front();
}

bool RecordPool::MustWake() {
  const bool empty_news = records_ == 0 && !ended_ && !told_empty_;
  const bool worth_it = owed_credit_bytes_ >= credit_quantum_bytes_ || progress_.has_ackable();
  if (!empty_news && (!worth_it || feeder_called_)) return false;
  if (empty_news) told_empty_ = true;
  feeder_called_ = true;
  return true;
}

Marks RecordPool::Snapshot() const {
  std::lock_guard<std::mutex> lock(mu_);
  Marks marks = progress_.marks();
  for (const auto& records : slots_) {
    if (records != nullptr && records->taken() > 0) {
      marks.partly[records->shard()] = records->taken();
    }
  }
  return marks;
}

bool RecordPool::end_delivered() const {
  std::lock_guard<std::mutex> lock(mu_);
  return end_delivered_;
}

// The feeder's side.

bool RecordPool::SetShards(uint64_t shards) {
  std::lock_guard<std::mutex> lock(mu_);
  if (!progress_.SetShards(shards)) return false;
  if (shards_expected_ == ~uint64_t{0}) shards_expected_ = shards - progress_.shards_done();
  return true;
}

uint64_t RecordPool::shards() const {
  std::lock_guard<std::mutex> lock(mu_);
  return progress_.shards();
}

RecordPool::Fate RecordPool::Consider(uint32_t shard, uint64_t length_bytes, uint32_t* skip) {
  std::lock_guard<std::mutex> lock(mu_);
  if (progress_.IsDone(shard)) {
    progress_.ShardSpent(shard);
    owed_credit_bytes_ += length_bytes;
    return Fate::kRepeated;
  }
  if (slot_of_.count(shard) != 0) {
    owed_credit_bytes_ += length_bytes;
    return Fate::kAlreadyHere;
  }
  *skip = progress_.Skip(shard);
  return Fate::kNew;
}

void RecordPool::Add(std::unique_ptr<ShardRecords> records, uint64_t length_bytes) {
  bool notify;
  {
    std::lock_guard<std::mutex> lock(mu_);
    last_arrival_ = std::chrono::steady_clock::now();
    if (shards_expected_ > 0 && shards_expected_ != ~uint64_t{0}) --shards_expected_;
    owed_credit_bytes_ += length_bytes - records->left_bytes();
    if (records->left() == 0) {
      progress_.ShardSpent(records->shard());
    } else {
      Place(std::move(records));
    }
    notify = waiting_;
  }
  if (notify) changed_.notify_one();
}

void RecordPool::Place(std::unique_ptr<ShardRecords> records) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t number = free_slots_.back();
  free_slots_.pop_back();
  told_empty_ = false;
  pooled_bytes_ += records->left_bytes();
  records_ += records->left();
  slot_of_[records->shard()] = number;
  if (options_.shuffle_bytes > 0) {
    tickets_.insert(tickets_.end(), records->left(), number);
  } else {
    queue_.push_back(number);
  }
  slots_[number] = std::move(records);
}

void RecordPool::Drop(uint32_t shard) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto found = slot_of_.find(shard);
  if (found == slot_of_.end()) return;
  const uint32_t number = found->second;
  slot_of_.erase(found);
  ShardRecords& records = *slots_[number];
  if (records.taken() > 0) progress_.ShardLeft(shard, records.taken());
  records_ -= records.left();
  pooled_bytes_ -= records.left_bytes();
  owed_credit_bytes_ += records.left_bytes();
  records.Discard(&graveyard_);
  slots_[number].reset();
  free_slots_.push_back(number);
  const auto is_dropped = [number](uint32_t other) { return other == number; };
  tickets_.erase(std::remove_if(tickets_.begin(), tickets_.end(), is_dropped), tickets_.end());
  queue_.erase(std::remove_if(queue_.begin(), queue_.end(), is_dropped), queue_.end());
}

void RecordPool::End() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    ended_ = true;
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

void RecordPool::TakerLeaves() {
  std::lock_guard<std::mutex> lock(mu_);
  if (error_.ok()) progress_.Deliver();
}

void RecordPool::Cancel(const std::string& why) { Fail(Status(Code::kCancelled, why)); }

RecordPool::Outbox RecordPool::TakeOutbox() {
  std::lock_guard<std::mutex> lock(mu_);
  feeder_called_ = false;
  Outbox outbox;
  outbox.acks = progress_.TakeAckable();
  outbox.empty = records_ == 0;
  if (owed_credit_bytes_ >= credit_quantum_bytes_ || outbox.empty) {
    outbox.credit_bytes = std::exchange(owed_credit_bytes_, 0);
  }
  return outbox;
}

std::vector<uint32_t> RecordPool::Held() const {
  std::lock_guard<std::mutex> lock(mu_);
  std::vector<uint32_t> held = progress_.Unacked();
  for (const auto& [shard, slot] : slot_of_) held.push_back(shard);
  return held;
}

uint64_t RecordPool::RestartCredit() {
  std::lock_guard<std::mutex> lock(mu_);
  owed_credit_bytes_ = 0;
  return pooled_bytes_;
}

}  // namespace tfquiver
