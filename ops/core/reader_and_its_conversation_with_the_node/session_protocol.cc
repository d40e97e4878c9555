#include "ops/core/reader_and_its_conversation_with_the_node/session_protocol.h"

#include <algorithm>
#include <utility>

#include "ops/core/reader_and_its_conversation_with_the_node/shard_check.h"

namespace tfquiver {
namespace {

// Acks that a node which dies may not have passed on; they are said again to the next one.
constexpr std::chrono::seconds kAckMemory{30};
constexpr std::chrono::milliseconds kSoonestReport{100};
constexpr size_t kMostRecentAcks = 1 << 20;

}  // namespace

SessionProtocol::Opening SessionProtocol::Open(std::vector<uint32_t> held, uint64_t here_bytes) {
  Opening opening;
  if (opened_) {
    for (const auto& [when, shard] : recent_acks_) held.push_back(shard);
    opening.frames = EncodeHeld(held);
  }
  // The node counts anew: what is here is not part of the credit.
  const uint64_t used_bytes = std::min(options_->credit_bytes, here_bytes);
  credit_debt_bytes_ = here_bytes - used_bytes;
  OpenFields open;
  open.session_id = session_id_;
  open.session_key = options_->session_key;
  open.digest_id = options_->digest_id;
  open.job = options_->job;
  open.reader_id = options_->reader_id;
  open.credit_bytes = options_->credit_bytes - used_bytes;
  open.wish = options_->wish;
  open.has_state = opening.has_state = !opened_ && !options_->done_zlib.empty();
  opening.frames.push_back(EncodeOpen(open));
  return opening;
}

void SessionProtocol::OnOpened(Opened opened, const std::vector<uint32_t>& wanted) {
  session_id_ = opened.session_id;
  session_ = std::move(opened);
  opened_ = true;
  if (options_->wish.order == Order::kWanted) {
    for (std::string& part : EncodeWants(wanted)) outgoing_.push_back(std::move(part));
  }
  std::vector<uint32_t> again;
  for (const auto& [when, shard] : recent_acks_) again.push_back(shard);
  for (std::string& part : EncodeAcks(again)) outgoing_.push_back(std::move(part));
}

Status SessionProtocol::OnPicks(PicksFrame part) {
  const bool first = picks_.bytes.empty();
  const bool next = first || (part.shard == picks_.shard && part.all_bytes == picks_.all_bytes);
  if (!next || part.bytes.empty() || part.at != picks_.bytes.size() ||
      part.bytes.size() > part.all_bytes - part.at) {
    return Status(Code::kAborted,
                  "picks of shard " + std::to_string(part.shard) + " that are not the next ones");
  }
  if (first) {
    picks_ = std::move(part);
  } else {
    picks_.bytes += part.bytes;
  }
  return Status();
}

Status SessionProtocol::OnShard(ShardFrame* frame) {
  ++shards_received_;
  PicksFrame picks = std::exchange(picks_, {});
  if (!picks.bytes.empty() &&
      (picks.shard != frame->shard || picks.bytes.size() != picks.all_bytes)) {
    return Status(Code::kAborted, "shard " + std::to_string(frame->shard) +
                                      " after some of the picks of shard " +
                                      std::to_string(picks.shard));
  }
  frame->picks = std::move(picks.bytes);
  return Validate(*frame, options_->wish, session_);
}

void SessionProtocol::OnEnd() {
  ended_ = true;
  outgoing_.clear();
}

void SessionProtocol::Loaded(uint32_t shard) { awaited_.erase(shard); }

void SessionProtocol::Bad(uint32_t shard, uint64_t length_bytes) {
  awaited_[shard] = length_bytes;
  if (!ended_) outgoing_.push_back(EncodeBad(shard));
}

uint64_t SessionProtocol::Dropped(uint32_t shard) {
  const auto found = awaited_.find(shard);
  if (found == awaited_.end()) return 0;
  const uint64_t length_bytes = found->second;
  awaited_.erase(found);
  return length_bytes;
}

void SessionProtocol::Tell(const std::vector<uint32_t>& acks, uint64_t credit_bytes, bool spent,
                           Clock::time_point now) {
  for (std::string& frame : EncodeAcks(acks)) outgoing_.push_back(std::move(frame));
  for (uint32_t shard : acks) recent_acks_.emplace_back(now, shard);
  while (!recent_acks_.empty() &&
         (now - recent_acks_.front().first > kAckMemory || recent_acks_.size() > kMostRecentAcks)) {
    recent_acks_.pop_front();
  }
  const uint64_t repaid_bytes = std::min(credit_debt_bytes_, credit_bytes);
  credit_debt_bytes_ -= repaid_bytes;
  if (credit_bytes > repaid_bytes) outgoing_.push_back(EncodeCredit(credit_bytes - repaid_bytes));
  if (spent && awaited_.empty() && drained_at_ != shards_received_) {
    drained_at_ = shards_received_;
    outgoing_.push_back(EncodeDraining(shards_received_));
  }
}

void SessionProtocol::OnPong(const Pong& pong) {
  if (pong.report_ms == 0) return;
  report_every_ = std::max(std::chrono::milliseconds(pong.report_ms), kSoonestReport);
  if (report_at_ == Clock::time_point::max()) report_at_ = Clock::time_point{};
}

void SessionProtocol::SayReport(const Report& report, Clock::time_point now) {
  report_at_ = now + report_every_;
  outgoing_.push_back(EncodeReport(report));
}

void SessionProtocol::Disconnected() {
  report_at_ = Clock::time_point::max();
  outgoing_.clear();
  awaited_.clear();
  picks_ = PicksFrame{};
  shards_received_ = 0;
  drained_at_ = ~uint64_t{0};
}

}  // namespace tfquiver
