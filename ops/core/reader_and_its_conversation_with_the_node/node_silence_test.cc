#include "ops/core/reader_and_its_conversation_with_the_node/node_silence.h"

#include <algorithm>
#include <vector>

#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

using std::chrono::seconds;
using Next = NodeSilence::Next;

constexpr Clock::time_point kBegun{seconds(1000)};

class NodeSilenceTest : public ::testing::Test {
 protected:
  void SetUp() override { silence_.Connected(now_); }
  // What it says within so long, but for that there is nothing to do.
  std::vector<Next> Passes(Clock::duration time) {
    std::vector<Next> said;
    for (const auto until = now_ + time; now_ < until;) {
      now_ = std::min(until, silence_.look_at());
      if (const Next next = silence_.Look(now_); next != Next::kWait) said.push_back(next);
    }
    return said;
  }

  Clock::time_point now_ = kBegun;
  NodeSilence silence_{seconds(60)};
};

TEST_F(NodeSilenceTest, WhoSaysNothingIsAskedThenSaidThenGivenUp) {
  silence_.Heard(true);
  EXPECT_TRUE(Passes(seconds(9)).empty());
  EXPECT_EQ(Passes(seconds(11)), (std::vector{Next::kAsk, Next::kSay}));
  const std::vector<Next> rest = Passes(seconds(39));
  EXPECT_EQ(static_cast<size_t>(std::count(rest.begin(), rest.end(), Next::kAsk)), rest.size());
  EXPECT_GT(rest.size(), 2u);
  EXPECT_EQ(Passes(seconds(1)), (std::vector{Next::kGiveUp}));
  EXPECT_EQ(silence_.silent_for(), Clock::duration(seconds(60)));
}

TEST_F(NodeSilenceTest, WhateverComesBeginsItAnew) {
  silence_.Heard(true);
  for (int i = 0; i < 10; ++i) {
    Passes(seconds(19));
    EXPECT_FALSE(silence_.Heard(false));
  }
  const std::vector<Next> said = Passes(seconds(21));
  EXPECT_EQ(static_cast<int>(std::count(said.begin(), said.end(), Next::kSay)), 1);
  EXPECT_TRUE(silence_.Heard(false));
  EXPECT_FALSE(silence_.Heard(false));
}

TEST_F(NodeSilenceTest, WhoHasNotAnsweredOnThisConnectionIsWaitedFor) {
  EXPECT_TRUE(Passes(std::chrono::hours(1)).empty());
  EXPECT_EQ(silence_.look_at(), Clock::time_point::max());
  silence_.Heard(true);
  silence_.Connected(now_);
  EXPECT_TRUE(Passes(std::chrono::hours(1)).empty());
}

TEST_F(NodeSilenceTest, TimeInWhichThisProcessStoodIsNotTheNodes) {
  silence_.Heard(true);
  Passes(seconds(5));
  now_ += std::chrono::hours(10);
  EXPECT_TRUE(silence_.Look(now_) == Next::kAsk);
  EXPECT_LT(silence_.silent_for(), Clock::duration(seconds(12)));
}

}  // namespace
}  // namespace tfquiver
