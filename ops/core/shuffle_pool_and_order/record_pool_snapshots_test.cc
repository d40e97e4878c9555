// Where a pool is, and another pool that goes on from there.

#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ops/core/progress_and_checkpoints/rewind.h"
#include "ops/core/shuffle_pool_and_order/record_pool.h"
#include "ops/testing/test_record_pool.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

TEST_F(RecordPoolTest, SnapshotAndRestoreAreComplements) {
  Make(10'000);
  ASSERT_TRUE(pool_->SetShards(4));
  for (uint32_t shard = 0; shard < 4; ++shard) Add(shard, 30);
  std::multiset<std::string> seen;
  for (const auto& text : Draw(70)) seen.insert(text);
  const Marks marks = pool_->Snapshot();
  Make(10'000, 0, marks);
  ASSERT_FALSE(pool_->SetShards(5));
  ASSERT_TRUE(pool_->SetShards(4));
  for (uint32_t shard = 0; shard < 4; ++shard) {
    uint32_t skip = 0;
    if (pool_->Consider(shard, 0, &skip) == RecordPool::Fate::kNew) Add(shard, 30, skip);
  }
  pool_->End();
  bool end = false;
  while (!end) {
    for (const auto& text : Draw(11, &end)) seen.insert(text);
  }
  EXPECT_EQ(seen.size(), 120u);
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 120u);
}

// Positions that are written down later fix what came since: in another pool, with another seed,
// to which the shards come in another order.
TEST_F(RecordPoolTest, AScriptIsDrawnAgainAndThenTheRest) {
  for (uint64_t shuffle_bytes : {uint64_t{10'000}, uint64_t{0}}) {
    Make(shuffle_bytes);
    auto trail = std::make_shared<Trail>();
    pool_->KeepTrail(trail);
    ASSERT_TRUE(pool_->SetShards(6));
    for (uint32_t shard : {3, 1, 0, 2}) Add(shard, 30);
    std::multiset<std::string> seen;
    for (const auto& text : Draw(25)) seen.insert(text);
    const Trail::Mark mark = trail->End();
    std::vector<std::string> again = Draw(40);
    Checkpoint checkpoint;
    std::vector<Step> steps;
    checkpoint.marks = pool_->Snapshot(&checkpoint.script, &mark, &steps);
    EXPECT_EQ(steps.size(), 40u);
    Rewind(steps, &checkpoint);
    const Marks marks = checkpoint.marks;
    Make(shuffle_bytes, 0, checkpoint.marks, checkpoint.script);
    ASSERT_TRUE(pool_->SetShards(6));
    std::thread feeder([this] {
      for (uint32_t shard : {5, 4, 2, 0, 1, 3}) {
        uint32_t skip = 0;
        if (pool_->Consider(shard, 0, &skip) == RecordPool::Fate::kNew) Add(shard, 30, skip);
      }
    });
    EXPECT_EQ(Draw(15), std::vector<std::string>(again.begin(), again.begin() + 15));
    // What is left of the script is part of the next checkpoint.
    Script left;
    pool_->Snapshot(&left);
    EXPECT_EQ(left.draws.size(), 25u);
    EXPECT_EQ(Draw(25), std::vector<std::string>(again.begin() + 15, again.end()));
    feeder.join();
    for (auto& text : again) seen.insert(std::move(text));
    pool_->End();
    bool end = false;
    while (!end) {
      for (const auto& text : Draw(11, &end)) seen.insert(text);
    }
    EXPECT_EQ(seen.size(), 180u);
    EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 180u);
  }
}

TEST_F(RecordPoolTest, AScriptThatDoesNotFitIsAnErrorAndOneOfWhatIsGoneIsPassedOver) {
  Script script;
  script.wanted = {1};
  script.draws = {1, 1, 1};
  Make(1000, 0, {}, script);
  ASSERT_TRUE(pool_->SetShards(2));
  Add(1, 2);
  Drawn drawn;
  bool end = false;
  EXPECT_EQ(pool_->Draw(1, &drawn, &end).code(), Code::kInvalidArgument);
  Make(1000, 0, {}, script);
  ASSERT_TRUE(pool_->SetShards(2));
  Add(0, 2);
  pool_->End();
  EXPECT_EQ(Draw(5, &end).size(), 2u);
  EXPECT_TRUE(end);
}

}  // namespace
}  // namespace tfquiver
