#include "ops/core/reader_and_its_conversation_with_the_node/node_silence.h"

#include <algorithm>

namespace tfquiver {

void NodeSilence::Connected(Clock::time_point now) {
  looked_at_ = now;
  answers_ = said_ = false;
  Heard(false);
}

bool NodeSilence::Heard(bool answer) {
  answers_ |= answer;
  silent_for_ = Clock::duration::zero();
  ask_after_ = patience_ / 6;
  const bool said = said_;
  said_ = false;
  return said;
}

NodeSilence::Next NodeSilence::Look(Clock::time_point now) {
  if (!answers_) return Next::kWait;
  silent_for_ += std::clamp<Clock::duration>(now - looked_at_, Clock::duration::zero(), 2 * step());
  looked_at_ = now;
  if (silent_for_ >= patience_) return Next::kGiveUp;
  if (!said_ && silent_for_ >= patience_ / 3) {
    said_ = true;
    return Next::kSay;
  }
  if (silent_for_ < ask_after_) return Next::kWait;
  ask_after_ += patience_ / 6;  // who is busy with sending answers only the next one
  return Next::kAsk;
}

Clock::time_point NodeSilence::look_at() const {
  return answers_ ? looked_at_ + step() : Clock::time_point::max();
}

}  // namespace tfquiver
