#include "ops/core/shuffle_pool_and_order/mixture.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ops/core/bytes_checksums_tfrecords/tfrecord.h"

namespace tfquiver {
namespace {

std::unique_ptr<Turns> MakeTurns(bool shuffled, uint64_t draw_seed) {
  if (shuffled) return std::make_unique<RandomTurns>(draw_seed);
  return std::make_unique<QueueTurns>();
}

}  // namespace

Mixture::Mixture(bool shuffled, uint64_t draw_seed, const Script& script)
    : shuffled_(shuffled),
      turns_(MakeTurns(shuffled, draw_seed)),
      wanted_(script.wanted),
      script_(script.draws.begin(), script.draws.end()) {
  for (uint32_t shard : wanted_) scripted_[shard].joined = shards_joined_++;
  for (uint32_t shard : script_) ++scripted_[shard].left;
}

void Mixture::SetOrder(std::unique_ptr<Gate> gate, uint64_t draw_seed, uint64_t order_seed,
                       bool logged) {
  gate_ = std::move(gate);
  turns_ = MakeTurns(shuffled_, draw_seed);
  order_seed_ = order_seed;
  logged_ = logged;
}

void Mixture::Fail(Code code, const std::string& why) {
  if (error_.ok()) error_ = Status(code, why);
}

// What comes and goes.

void Mixture::Coming(const Place& place) {
  if (gate_ != nullptr) gate_->Coming(place);
}

void Mixture::Add(std::unique_ptr<ShardRecords> records, const Place& place) {
  if (gate_ == nullptr || scripted_.count(records->shard()) != 0) {
    Join(std::move(records), /*in_block=*/false);
  } else {
    // Whoever draws lets it in, in its turn.
    gate_->Arrived(std::move(records), place);
  }
}

void Mixture::Void(uint32_t shard, const Place& place) {
  if (gate_ != nullptr) gate_->Void(shard, place);
}

bool Mixture::Has(uint32_t shard) const {
  return slot_of_.count(shard) != 0 || (gate_ != nullptr && gate_->Has(shard));
}

std::unique_ptr<ShardRecords> Mixture::Drop(uint32_t shard) {
  if (keeps()) return nullptr;
  if (slot_of_.count(shard) != 0) return Leave(shard);
  return gate_ == nullptr ? nullptr : gate_->Drop(shard);
}

std::vector<std::unique_ptr<ShardRecords>> Mixture::GiveUp() {
  if (gate_ == nullptr) return {};
  return gate_->GiveUp();
}

void Mixture::Close() {
  closed_ = true;
  if (gate_ != nullptr) gate_->Close();
}

uint32_t Mixture::Join(std::unique_ptr<ShardRecords> records, bool in_block) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
    joined_as_.emplace_back();
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  const uint32_t shard = records->shard();
  if (logged_) joined_.push_back(OrderEntry{shard, drawn_, false});
  uint32_t turns = records->left();
  left_ += turns;
  const auto scripted = scripted_.find(shard);
  if (scripted != scripted_.end()) {
    if (scripted->second.left > turns) {
      Fail(Code::kInvalidArgument,
           "the checkpoint has more records of shard " + std::to_string(shard) + " than it has");
    }
    turns -= std::min(turns, scripted->second.left);
    joined_as_[slot] = scripted->second.joined;
  } else {
    joined_as_[slot] = shards_joined_++;
  }
  slot_of_[shard] = slot;
  slots_[slot] = std::move(records);
  if (!in_block) turns_->Join(slot, turns);
  return slot;
}

std::unique_ptr<ShardRecords> Mixture::Leave(uint32_t shard) {
  const auto found = slot_of_.find(shard);
  const uint32_t slot = found->second;
  slot_of_.erase(found);
  std::unique_ptr<ShardRecords> records = std::move(slots_[slot]);
  if (logged_) joined_.push_back(OrderEntry{shard, drawn_, true});
  left_ -= records->left();
  free_slots_.push_back(slot);
  block_.Leave(slot);
  turns_->Leave(slot);
  return records;
}

// Draws.

bool Mixture::Admit() {
  PassOver();
  bool joined = false;
  Joining joining;
  while (gate_ != nullptr && script_.empty() && gate_->Next(drawn_, left_, &joining)) {
    if (joining.leaves) {
      if (slot_of_.count(*joining.leaves) != 0) gate_->Left(Leave(*joining.leaves));
    } else if (joining.block_records > 0) {
      AdmitBlock(&joining);
      joined = true;
    } else {
      for (auto& member : joining.members) Join(std::move(member.records), /*in_block=*/false);
      joined = true;
    }
    joining = Joining();
  }
  return joined;
}

void Mixture::AdmitBlock(Joining* joining) {
  std::vector<BlockTurns::Member> members;
  uint64_t came = 0;
  for (auto& member : joining->members) {
    BlockTurns::Member turns{0, member.offset, member.records->records(), member.records->taken()};
    came += member.records->left();
    turns.slot = Join(std::move(member.records), /*in_block=*/true);
    members.push_back(turns);
  }
  block_.Begin(joining->position, joining->block_records, members,
               shuffled_ ? &order_seed_ : nullptr);
  if (block_.left() != came) {
    Fail(Code::kAborted,
         "the tfquiver node broke the protocol: the shards of the block at position " +
             std::to_string(joining->position) + " do not fit it");
  }
}

// Of shards that the end has shown to be read already nothing more will come.
void Mixture::PassOver() {
  while (closed_ && Stuck()) {
    script_.pop_front();
    if (script_.empty()) scripted_.clear();
  }
}

Mixture::Taken Mixture::Take(uint64_t most, Drawn* drawn) {
  Taken taken;
  if (!error_.ok()) return taken;
  most = std::min(most, left_);
  if (gate_ != nullptr) most = std::min(most, gate_->MayDraw(drawn_));
  const bool scripted = !script_.empty();
  for (uint64_t i = 0; i < most && !(scripted && Stuck()); ++i) TakeOne(drawn, &taken);
  return taken;
}

uint32_t Mixture::NextSlot(Drawn* drawn) {
  if (!script_.empty()) {
    const uint32_t shard = script_.front();
    --scripted_.find(shard)->second.left;
    script_.pop_front();
    if (script_.empty()) scripted_.clear();
    return slot_of_.at(shard);
  }
  if (block_.left() > 0) {
    drawn->positions.emplace_back();
    return block_.Next(&drawn->positions.back());
  }
  return turns_->Next();
}

void Mixture::TakeOne(Drawn* drawn, Taken* taken) {
  const uint32_t slot = NextSlot(drawn);
  ShardRecords& shard = *slots_[slot];
  if (trail_ != nullptr) {
    trail_->Append(Step{shard.shard(), shard.taken(), joined_as_[slot]});
  }
  drawn->records.push_back(shard.Take(&drawn->retired));
  taken->raw_bytes += drawn->records.back().size + kRecordFramingBytes;
  --left_;
  ++drawn_;
  if (shard.left() > 0) return;
  taken->spent.push_back(shard.shard());
  slot_of_.erase(shard.shard());
  slots_[slot].reset();
  free_slots_.push_back(slot);
}

// What it has come to.

std::vector<uint32_t> Mixture::Shards() const {
  std::vector<uint32_t> shards;
  for (const auto& [shard, slot] : slot_of_) shards.push_back(shard);
  if (gate_ == nullptr) return shards;
  for (const ShardRecords* records : gate_->Waiting()) shards.push_back(records->shard());
  return shards;
}

void Mixture::Mark(Marks* marks) const {
  const auto mark = [marks](const ShardRecords& records) {
    if (records.taken() > 0) marks->partly[records.shard()] = records.taken();
  };
  for (const auto& records : slots_) {
    if (records != nullptr) mark(*records);
  }
  if (gate_ == nullptr) return;
  for (const ShardRecords* records : gate_->Waiting()) mark(*records);
}

void Mixture::RestOfScript(Script* script) const {
  if (script_.empty()) return;
  script->draws.assign(script_.begin(), script_.end());
  for (uint32_t shard : wanted_) {
    const Scripted& scripted = scripted_.at(shard);
    if (scripted.left == 0) continue;
    script->wanted.push_back(shard);
    script->joined.push_back(scripted.joined);
  }
}

std::vector<OrderEntry> Mixture::TakeJoined() { return std::exchange(joined_, {}); }

}  // namespace tfquiver
