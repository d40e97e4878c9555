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
      random_(options.seed),
      script_(options.script.draws.begin(), options.script.draws.end()) {
  for (uint32_t shard : options.script.wanted) scripted_[shard].joined = shards_joined_++;
  for (uint32_t shard : script_) ++scripted_[shard].left;
}

RecordPool::~RecordPool() = default;

void RecordPool::SetOrder(std::unique_ptr<Gate> gate, uint64_t draw_seed, uint64_t order_seed,
                          bool logged) {
  std::lock_guard<std::mutex> lock(mu_);
  gate_ = std::move(gate);
  random_ = Random(draw_seed);
  order_seed_ = order_seed;
  logged_ = logged;
}

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
      uint64_t now = std::min<uint64_t>(want - drawn->records.size(), records_);
      if (gate_ != nullptr) now = std::min(now, gate_->MayDraw(drawn_));
      const bool scripted = !script_.empty();
      for (uint64_t i = 0; i < now && !(scripted && Stuck()); ++i) TakeOne(drawn);
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
  drawn->positions.clear();
}

bool RecordPool::Filled() const {
  if (Shut()) return false;
  if (!script_.empty()) return true;
  if (gate_ != nullptr && !gate_->fills()) return true;
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
    Admit();
    PassOver();
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
    if (records_ > 0 && !Shut()) {
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
  if (!script_.empty()) {
    const auto scripted = scripted_.find(script_.front());
    slot_number = slot_of_.at(script_.front());
    --scripted->second.left;
    script_.pop_front();
    if (script_.empty()) scripted_.clear();
  } else if (in_blocks_) {
    while (tickets_.back() == kAbsent) tickets_.pop_back();
    drawn->positions.push_back(static_cast<int64_t>(block_end_ - tickets_.size()));
    slot_number = tickets_.back();
    tickets_.pop_back();
  } else if (options_.shuffle_bytes > 0) {
    const uint64_t index = random_.Below(tickets_.size());
    slot_number = tickets_[index];
    tickets_[index] = tickets_.back();
    tickets_.pop_back();
  } else {
    slot_number = queue_.front();
  }
  ShardRecords& shard = *slots_[slot_number];
  if (trail_ != nullptr) {
    trail_->Append(Step{shard.shard(), shard.taken(), joined_as_[slot_number]});
  }
  drawn->records.push_back(shard.Take(&drawn->retired));
  const uint64_t raw_bytes = drawn->records.back().size + kRecordFramingBytes;
  pooled_bytes_ -= raw_bytes;
  owed_credit_bytes_ += raw_bytes;
  --records_;
  ++drawn_;
  if (shard.left() == 0) Finish(slot_number);
}

void RecordPool::Finish(uint32_t slot_number) {
  const uint32_t shard = slots_[slot_number]->shard();
  progress_.ShardEmitted(shard, elements_);
  slot_of_.erase(shard);
  slots_[slot_number].reset();
  free_slots_.push_back(slot_number);
  if (options_.shuffle_bytes == 0 && !in_blocks_) {
    queue_.erase(std::find(queue_.begin(), queue_.end(), slot_number));
  }
}

// Of shards that the session's end has shown to be read already nothing more will come.
void RecordPool::PassOver() {
  while (ended_ && Stuck()) {
    script_.pop_front();
    if (script_.empty()) scripted_.clear();
  }
}

bool RecordPool::MustWake() {
  // Where draws wait for the one shard that must come next, the node must not lack credit for it.
  const bool shut = owed_credit_bytes_ > 0 && Shut();
  if (shut && !feeder_called_) return feeder_called_ = true;
  const bool empty_news = records_ == 0 && !ended_ && !told_empty_;
  const bool worth_it = owed_credit_bytes_ >= credit_quantum_bytes_ || progress_.has_ackable();
  if (!empty_news && (!worth_it || feeder_called_)) return false;
  if (empty_news) told_empty_ = true;
  feeder_called_ = true;
  return true;
}

Marks RecordPool::Snapshot(Script* script, const Trail::Mark* mark,
                           std::vector<Step>* steps) const {
  std::lock_guard<std::mutex> lock(mu_);
  if (mark != nullptr) *steps = trail_->Since(*mark);
  if (script != nullptr && !script_.empty()) {
    script->draws.assign(script_.begin(), script_.end());
    for (uint32_t shard : options_.script.wanted) {
      const Scripted& scripted = scripted_.at(shard);
      if (scripted.left == 0) continue;
      script->wanted.push_back(shard);
      script->joined.push_back(scripted.joined);
    }
  }
  Marks marks = progress_.marks();
  for (const auto& records : slots_) {
    if (records != nullptr && records->taken() > 0) {
      marks.partly[records->shard()] = records->taken();
    }
  }
  for (const ShardRecords* records : Waiting()) {
    if (records->taken() > 0) marks.partly[records->shard()] = records->taken();
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

RecordPool::Fate RecordPool::Consider(uint32_t shard, uint64_t length_bytes, uint32_t* skip,
                                      const Place& place) {
  std::lock_guard<std::mutex> lock(mu_);
  const bool done = progress_.IsDone(shard);
  if (!done && slot_of_.count(shard) == 0 && !(gate_ != nullptr && gate_->Has(shard))) {
    *skip = progress_.Skip(shard);
    return Fate::kNew;
  }
  if (done) progress_.ShardSpent(shard);
  owed_credit_bytes_ += length_bytes;
  if (gate_ != nullptr) {
    gate_->Void(shard, place);
    if (waiting_) changed_.notify_one();
  }
  return done ? Fate::kRepeated : Fate::kAlreadyHere;
}

void RecordPool::Add(std::unique_ptr<ShardRecords> records, uint64_t length_bytes,
                     const Place& place) {
  bool notify;
  {
    std::lock_guard<std::mutex> lock(mu_);
    last_arrival_ = std::chrono::steady_clock::now();
    if (shards_expected_ > 0 && shards_expected_ != ~uint64_t{0}) --shards_expected_;
    pooled_bytes_ += records->left_bytes();
    owed_credit_bytes_ += length_bytes - records->left_bytes();
    if (records->left() == 0) {
      progress_.ShardSpent(records->shard());
      if (gate_ != nullptr) gate_->Void(records->shard(), place);
    } else if (gate_ == nullptr || scripted_.count(records->shard()) != 0) {
      Join(std::move(records));
    } else {
      // Whoever draws lets it in, in its turn.
      told_empty_ = false;
      gate_->Arrived(std::move(records), place);
    }
    notify = waiting_;
  }
  if (notify) changed_.notify_one();
}

bool RecordPool::Lacks(uint32_t shard) const {
  std::lock_guard<std::mutex> lock(mu_);
  return !progress_.IsDone(shard) && slot_of_.count(shard) == 0 &&
         !(gate_ != nullptr && gate_->Has(shard));
}

void RecordPool::Admit() {
  Joining joining;
  while (gate_ != nullptr && script_.empty() && gate_->Next(drawn_, records_, &joining)) {
    if (joining.leaves) {
      if (slot_of_.count(*joining.leaves) != 0) gate_->Left(Leave(*joining.leaves));
    } else if (joining.block_records > 0) {
      AdmitBlock(&joining);
    } else {
      for (auto& member : joining.members) Join(std::move(member.records));
    }
    joining = Joining();
  }
}

// The order of a block's records is a function of the order seed and the block alone, whoever has
// read some of them already: of all its records, those that are not here are passed over.
void RecordPool::AdmitBlock(Joining* joining) {
  in_blocks_ = true;
  tickets_.assign(joining->block_records, kAbsent);
  block_end_ = joining->position + joining->block_records;
  std::unordered_map<uint32_t, uint32_t> skips;  // by slot
  for (auto& member : joining->members) {
    const uint32_t records = member.records->records();
    const uint32_t skip = member.records->taken();
    const uint32_t slot = Join(std::move(member.records));
    const uint64_t end = std::min<uint64_t>(uint64_t{member.offset} + records, tickets_.size());
    for (uint64_t at = member.offset; at < end; ++at) tickets_[at] = slot;
    if (skip > 0) skips[slot] = skip;
  }
  if (options_.shuffle_bytes > 0) {
    Random random(Random(order_seed_ ^ (joining->position * 0xd1342543de82ef95ull)).Next());
    for (size_t i = tickets_.size(); i > 1; --i) {
      std::swap(tickets_[i - 1], tickets_[random.Below(i)]);
    }
  }
  for (uint32_t& ticket : tickets_) {
    const auto skip = skips.find(ticket);
    if (skip == skips.end()) continue;
    ticket = kAbsent;
    if (--skip->second == 0) skips.erase(skip);
    if (skips.empty()) break;
  }
  std::reverse(tickets_.begin(), tickets_.end());
  const auto absent = std::count(tickets_.begin(), tickets_.end(), uint32_t{kAbsent});
  if (tickets_.size() - static_cast<size_t>(absent) != records_ && error_.ok()) {
    error_ = Status(Code::kAborted,
                    "the tfquiver node broke the protocol: the shards of the block "
                    "at position " +
                        std::to_string(joining->position) + " do not fit it");
  }
}

uint32_t RecordPool::Join(std::unique_ptr<ShardRecords> records) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
    joined_as_.emplace_back();
  }
  const uint32_t number = free_slots_.back();
  free_slots_.pop_back();
  told_empty_ = false;
  if (logged_) joined_.push_back(OrderEntry{records->shard(), drawn_, false});
  uint32_t left = records->left();
  const auto scripted = scripted_.find(records->shard());
  if (scripted != scripted_.end()) {
    if (scripted->second.left > left && error_.ok()) {
      error_ =
          Status(Code::kInvalidArgument, "the checkpoint has more records of shard " +
                                             std::to_string(records->shard()) + " than it has");
    }
    left -= std::min(left, scripted->second.left);
    joined_as_[number] = scripted->second.joined;
  } else {
    joined_as_[number] = shards_joined_++;
  }
  records_ += records->left();
  slot_of_[records->shard()] = number;
  if (in_blocks_) {
    // AdmitBlock gives them their places.
  } else if (options_.shuffle_bytes > 0) {
    tickets_.insert(tickets_.end(), left, number);
  } else {
    queue_.push_back(number);
  }
  slots_[number] = std::move(records);
  return number;
}

std::unique_ptr<ShardRecords> RecordPool::Leave(uint32_t shard) {
  const auto found = slot_of_.find(shard);
  const uint32_t number = found->second;
  slot_of_.erase(found);
  std::unique_ptr<ShardRecords> records = std::move(slots_[number]);
  if (logged_) joined_.push_back(OrderEntry{shard, drawn_, true});
  if (records->taken() > 0) progress_.ShardLeft(shard, records->taken());
  records_ -= records->left();
  free_slots_.push_back(number);
  const auto is_dropped = [number](uint32_t other) { return other == number; };
  if (in_blocks_) {
    std::replace_if(tickets_.begin(), tickets_.end(), is_dropped, uint32_t{kAbsent});
  } else {
    tickets_.erase(std::remove_if(tickets_.begin(), tickets_.end(), is_dropped), tickets_.end());
  }
  queue_.erase(std::remove_if(queue_.begin(), queue_.end(), is_dropped), queue_.end());
  return records;
}

void RecordPool::Drop(uint32_t shard) {
  std::lock_guard<std::mutex> lock(mu_);
  // What is scripted is of a reader that is alone.
  if (!script_.empty() || (gate_ != nullptr && gate_->keeps())) return;
  if (slot_of_.count(shard) != 0) {
    Discard(Leave(shard));
  } else if (gate_ != nullptr) {
    std::unique_ptr<ShardRecords> records = gate_->Drop(shard);
    if (records != nullptr) Discard(std::move(records));
  }
}

void RecordPool::Discard(std::unique_ptr<ShardRecords> records) {
  pooled_bytes_ -= records->left_bytes();
  owed_credit_bytes_ += records->left_bytes();
  records->Discard(&graveyard_);
}

void RecordPool::End() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    ended_ = true;
    if (gate_ != nullptr) gate_->Close();
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
  const bool shut = Shut() || (gate_ != nullptr && records_ == 0);
  outbox.empty = records_ == 0 && Waiting().empty();
  if (owed_credit_bytes_ >= credit_quantum_bytes_ || outbox.empty || shut) {
    outbox.credit_bytes = std::exchange(owed_credit_bytes_, 0);
  }
  return outbox;
}

std::vector<const ShardRecords*> RecordPool::Waiting() const {
  return gate_ != nullptr ? gate_->Waiting() : std::vector<const ShardRecords*>();
}

std::vector<uint32_t> RecordPool::Held() {
  std::lock_guard<std::mutex> lock(mu_);
  if (gate_ != nullptr) {
    for (auto& records : gate_->GiveUp()) Discard(std::move(records));
  }
  std::vector<uint32_t> held = progress_.Unacked();
  for (const auto& [shard, slot] : slot_of_) held.push_back(shard);
  for (const ShardRecords* records : Waiting()) held.push_back(records->shard());
  return held;
}

uint64_t RecordPool::RestartCredit() {
  std::lock_guard<std::mutex> lock(mu_);
  owed_credit_bytes_ = 0;
  return pooled_bytes_;
}

std::vector<OrderEntry> RecordPool::TakeJoined(uint64_t* drawn, bool* all) {
  std::lock_guard<std::mutex> lock(mu_);
  *drawn = drawn_;
  *all = ended_ && records_ == 0 && Waiting().empty();
  return std::exchange(joined_, {});
}

}  // namespace tfquiver
