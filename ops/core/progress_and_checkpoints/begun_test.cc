#include "ops/core/progress_and_checkpoints/begun.h"

#include <vector>

#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

TEST(KeepBegun, AllButWhatWasBegunIsDone) {
  Checkpoint checkpoint;
  checkpoint.order_seed = 7;
  checkpoint.marks.shards = 11;
  checkpoint.marks.done = {1, 0};
  checkpoint.marks.partly = {{3, 5}, {10, 1}};
  checkpoint.script.wanted = {3};
  checkpoint.script.draws = {3};
  KeepBegun(&checkpoint);
  EXPECT_EQ(checkpoint.marks.done, (std::vector<uint8_t>{0xf7, 0x03}));
  EXPECT_EQ(checkpoint.marks.partly.at(3), 5u);
  EXPECT_EQ(checkpoint.order_seed, 7u);
  EXPECT_TRUE(checkpoint.script.wanted.empty());
  EXPECT_TRUE(checkpoint.script.draws.empty());
}

TEST(KeepBegun, NothingBegunIsNothingLeft) {
  Checkpoint checkpoint;
  checkpoint.marks.shards = 8;
  checkpoint.marks.done = {0};
  KeepBegun(&checkpoint);
  EXPECT_EQ(checkpoint.marks.done, std::vector<uint8_t>{0xff});
}

}  // namespace
}  // namespace tfquiver
