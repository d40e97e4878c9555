#ifndef TFQUIVER_OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_NODE_SILENCE_H_
#define TFQUIVER_OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_NODE_SILENCE_H_

#include <chrono>

#include "ops/core/clock.h"

namespace tfquiver {

// For how long a node that answers PING has said nothing: one that hangs, or was stopped, keeps its
// connection. Is told what came and the time, says what to do. Time in which nobody looked, because
// this process was stopped itself, does not count as the node's.
class NodeSilence {
 public:
  enum class Next { kWait, kAsk, kSay, kGiveUp };

  // After `patience` of silence the node is given up; after a third of that it is to be said.
  explicit NodeSilence(std::chrono::milliseconds patience) : patience_(patience) {}

  // A new connection: whether the node answers PING is not known; older ones do not.
  void Connected(Clock::time_point now);
  // A frame came; `answer`: a PONG. Whether that ends a silence that was said.
  bool Heard(bool answer);
  // To be asked when all that had come has been read.
  Next Look(Clock::time_point now);
  // When to look again at the latest; max(): there is no need.
  Clock::time_point look_at() const;
  // By what Look has seen.
  Clock::duration silent_for() const { return silent_for_; }

 private:
  std::chrono::milliseconds step() const { return patience_ / 20; }

  const std::chrono::milliseconds patience_;
  Clock::time_point looked_at_{};
  Clock::duration silent_for_{0};
  Clock::duration ask_after_{0};
  bool answers_ = false;
  bool said_ = false;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_NODE_SILENCE_H_
