#include "ops/core/shuffle_pool/record_pool.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "ops/core/position/rewind.h"
#include "ops/core/test_support.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

class RecordPoolTest : public ::testing::Test {
 protected:
  void Make(uint64_t shuffle_bytes, uint64_t hold_back = 0, Marks restored = {},
            Script script = {}) {
    PoolOptions options;
    options.script = std::move(script);
    options.seed = ++seed_;
    options.shuffle_bytes = shuffle_bytes;
    options.capacity_bytes = shuffle_bytes + 1000;
    options.hold_back = hold_back;
    options.patience = std::chrono::milliseconds(5);
    pool_ =
        std::make_unique<RecordPool>(options, std::move(restored), &blocks_, [this] { ++wakes_; });
  }

  // Shard `shard` with records "shard.0", "shard.1", ...
  uint64_t Add(uint32_t shard, int records, uint32_t skip = 0) {
    auto filled = std::make_unique<ShardRecords>(shard, 1000, &blocks_, &blobs_);
    uint64_t bytes = 0;
    for (int i = 0; i < records; ++i) {
      const std::string text = std::to_string(shard) + "." + std::to_string(i);
      bytes += text.size() + kRecordFramingBytes;
      if (i >= static_cast<int>(skip)) filled->AppendSmall(text.data(), text.size());
    }
    filled->CountSkipped(skip);
    pool_->Add(std::move(filled), bytes);
    return bytes;
  }

  std::vector<std::string> Draw(size_t want, bool* end = nullptr) {
    Drawn drawn;
    bool ended = false;
    const Status status = pool_->Draw(want, &drawn, end == nullptr ? &ended : end);
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<std::string> texts;
    for (const Record& record : drawn.records) texts.push_back(blobs_.Text(record));
    pool_->Release(&drawn);
    return texts;
  }

  uint64_t seed_ = 0;
  BlockPool blocks_{8};
  StringBlobs blobs_;
  std::atomic<int> wakes_{0};
  std::unique_ptr<RecordPool> pool_;
};

TEST_F(RecordPoolTest, InOrderWithoutShuffle) {
  Make(0);
  ASSERT_TRUE(pool_->SetShards(2));
  Add(1, 2);
  Add(0, 1);
  EXPECT_EQ(Draw(2), (std::vector<std::string>{"1.0", "1.1"}));
  EXPECT_EQ(Draw(1), (std::vector<std::string>{"0.0"}));
}

TEST_F(RecordPoolTest, DrawsFromAllShardsAtRandom) {
  Make(1 << 20);
  ASSERT_TRUE(pool_->SetShards(10));
  for (uint32_t shard = 0; shard < 10; ++shard) Add(shard, 100);
  pool_->End();
  std::map<char, int> first_half;
  std::set<std::string> seen;
  for (int i = 0; i < 10; ++i) {
    for (const std::string& text : Draw(100)) {
      seen.insert(text);
      if (i < 5) ++first_half[text[0]];
    }
  }
  EXPECT_EQ(seen.size(), 1000u);
  for (const auto& [shard, count] : first_half) EXPECT_NEAR(count, 50, 20) << shard;
  bool end = false;
  EXPECT_TRUE(Draw(1, &end).empty());
  EXPECT_TRUE(end);
  EXPECT_TRUE(pool_->end_delivered());
}

TEST_F(RecordPoolTest, AcksWhenTheLastRecordLeaves) {
  Make(0);
  ASSERT_TRUE(pool_->SetShards(5));
  Add(4, 3);
  Draw(2);
  EXPECT_TRUE(pool_->TakeOutbox().acks.empty());
  Draw(1);
  EXPECT_EQ(pool_->TakeOutbox().acks, std::vector<uint32_t>{4});
  EXPECT_TRUE(pool_->TakeOutbox().acks.empty());
}

TEST_F(RecordPoolTest, HoldsAcksBack) {
  Make(0, /*hold_back=*/2);
  ASSERT_TRUE(pool_->SetShards(5));
  for (uint32_t shard = 0; shard < 5; ++shard) Add(shard, 1);
  Draw(1);
  Draw(1);
  EXPECT_TRUE(pool_->TakeOutbox().acks.empty());
  EXPECT_EQ(pool_->Held().size(), 5u);
  Draw(1);
  EXPECT_EQ(pool_->TakeOutbox().acks, std::vector<uint32_t>{0});
  Draw(2);
  EXPECT_EQ(pool_->TakeOutbox().acks, std::vector<uint32_t>{1});
  EXPECT_EQ(pool_->Held().size(), 3u);
}

TEST_F(RecordPoolTest, GivesBackAllCredit) {
  Make(1000);
  ASSERT_TRUE(pool_->SetShards(4));
  uint64_t bytes = Add(0, 10) + Add(1, 10);
  Draw(20);
  EXPECT_GT(wakes_, 0);
  const RecordPool::Outbox outbox = pool_->TakeOutbox();
  EXPECT_TRUE(outbox.empty);
  EXPECT_EQ(outbox.credit_bytes, bytes);
  uint32_t skip = 0;
  EXPECT_EQ(pool_->Consider(0, 77, &skip), RecordPool::Fate::kRepeated);
  EXPECT_EQ(pool_->TakeOutbox().credit_bytes, 77u);
}

TEST_F(RecordPoolTest, RestartedCreditCountsWhatIsHere) {
  Make(1000);
  ASSERT_TRUE(pool_->SetShards(4));
  const uint64_t bytes = Add(0, 10);
  Draw(1);
  EXPECT_EQ(pool_->RestartCredit(), bytes - 3 - kRecordFramingBytes);
}

TEST_F(RecordPoolTest, PartOfABatchAtTheEnd) {
  Make(1000);
  ASSERT_TRUE(pool_->SetShards(4));
  Add(0, 3);
  std::thread feeder([this] {
    while (!pool_->TakeOutbox().empty) std::this_thread::yield();
    pool_->End();
  });
  bool end = false;
  EXPECT_EQ(Draw(5, &end).size(), 3u);
  EXPECT_TRUE(end);
  EXPECT_FALSE(pool_->end_delivered());
  feeder.join();
}

TEST_F(RecordPoolTest, CancelEndsTheWait) {
  Make(1000);
  std::thread other([this] { pool_->Cancel("enough"); });
  Drawn drawn;
  bool end = false;
  EXPECT_EQ(pool_->Draw(1, &drawn, &end).code(), Code::kCancelled);
  other.join();
}

TEST_F(RecordPoolTest, CancelDrawEndsOneDrawAndTheNextGoesOnWithIt) {
  Make(0);
  ASSERT_TRUE(pool_->SetShards(2));
  Add(0, 2);
  Drawn drawn;
  bool end = false;
  int waits = 0;
  const auto cancel = [this, &waits] {
    ++waits;
    pool_->CancelDraw();
  };
  EXPECT_EQ(pool_->Draw(3, &drawn, &end, cancel).code(), Code::kCancelled);
  EXPECT_EQ(waits, 1);
  Add(1, 1);
  EXPECT_TRUE(pool_->Draw(3, &drawn, &end, cancel).ok());
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(drawn.records.size(), 3u);
  pool_->Release(&drawn);
}

TEST_F(RecordPoolTest, CancelComesAfterAnyFailure) {
  Make(1000);
  pool_->Fail(Status(Code::kDataLoss, "first"));
  pool_->Cancel("enough");
  Drawn drawn;
  bool end = false;
  EXPECT_EQ(pool_->Draw(1, &drawn, &end).code(), Code::kCancelled);
}

TEST_F(RecordPoolTest, FailureEndsTheWaitAndTheFirstOneStays) {
  Make(1000);
  std::thread other([this] {
    pool_->Fail(Status(Code::kDataLoss, "first"));
    pool_->Fail(Status(Code::kInternal, "second"));
  });
  Drawn drawn;
  bool end = false;
  EXPECT_EQ(pool_->Draw(1, &drawn, &end).code(), Code::kDataLoss);
  other.join();
  EXPECT_EQ(pool_->Draw(1, &drawn, &end).message(), "first");
}

TEST_F(RecordPoolTest, ASilentNodeDoesNotHoldUpWhatIsHere) {
  Make(1 << 20);
  ASSERT_TRUE(pool_->SetShards(100));
  Add(0, 3);
  EXPECT_EQ(Draw(3).size(), 3u);
}

TEST_F(RecordPoolTest, DroppedShardsAreNotEmitted) {
  Make(10'000);
  ASSERT_TRUE(pool_->SetShards(3));
  Add(0, 50);
  Add(1, 50);
  size_t emitted_of_0 = 0;
  for (const std::string& text : Draw(40)) emitted_of_0 += text[0] == '0';
  pool_->Drop(0);
  pool_->Drop(2);
  pool_->End();
  std::vector<std::string> rest;
  bool end = false;
  while (!end) {
    for (auto& text : Draw(7, &end)) rest.push_back(text);
  }
  for (const std::string& text : rest) EXPECT_EQ(text[0], '1');
  // It may come back: what was emitted of it is skipped.
  uint32_t skip = 0;
  EXPECT_EQ(pool_->Consider(0, 1, &skip), RecordPool::Fate::kNew);
  EXPECT_EQ(skip, emitted_of_0);
  EXPECT_EQ(rest.size(), 50 - (40 - emitted_of_0));
}

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

TEST_F(RecordPoolTest, EmptyShardsAreAckedAtOnce) {
  Make(1000, /*hold_back=*/5);
  ASSERT_TRUE(pool_->SetShards(2));
  Add(1, 0);
  const RecordPool::Outbox outbox = pool_->TakeOutbox();
  EXPECT_EQ(outbox.acks, std::vector<uint32_t>{1});
  EXPECT_TRUE(outbox.empty);
}

// A feeder and a taker at full speed, a credit that is never exceeded, and every record once.
TEST_F(RecordPoolTest, TwoThreads) {
  constexpr uint32_t kShards = 400;
  Make(3000);
  ASSERT_TRUE(pool_->SetShards(kShards));
  std::set<uint32_t> acked;
  std::thread feeder([this, &acked] {
    int64_t credit = 4000;
    uint32_t next = 0;
    while (acked.size() < kShards) {
      RecordPool::Outbox outbox = pool_->TakeOutbox();
      credit += static_cast<int64_t>(outbox.credit_bytes);
      for (uint32_t shard : outbox.acks) EXPECT_TRUE(acked.insert(shard).second);
      if (credit > 0 && next < kShards) {
        credit -= static_cast<int64_t>(Add(next, static_cast<int>(next % 50) + 1));
        ++next;
      }
    }
    pool_->End();
  });
  std::set<std::string> seen;
  size_t total = 0;
  bool end = false;
  while (!end) {
    for (auto& text : Draw(17, &end)) {
      ++total;
      seen.insert(std::move(text));
    }
  }
  feeder.join();
  EXPECT_EQ(total, seen.size());
  EXPECT_EQ(total, kShards / 50 * (50u * 51 / 2));
}

TEST_F(RecordPoolTest, ADrawThatRunsOutOfTimeIsGoneOnWith) {
  using std::chrono::milliseconds;
  Make(0);
  ASSERT_TRUE(pool_->SetShards(2));
  Add(0, 1);
  Drawn drawn;
  bool end = false;
  const auto soon = [] { return Clock::now() + milliseconds(2); };
  EXPECT_EQ(pool_->Draw(2, &drawn, &end, {}, soon()).code(), Code::kDeadlineExceeded);
  EXPECT_EQ(drawn.records.size(), 1u);
  EXPECT_EQ(pool_->Draw(2, &drawn, &end, {}, soon()).code(), Code::kDeadlineExceeded);
  Add(1, 1);
  EXPECT_TRUE(pool_->Draw(2, &drawn, &end, {}, soon()).ok());
  ASSERT_EQ(drawn.records.size(), 2u);
  EXPECT_EQ(blobs_.Text(drawn.records[0]), "0.0");
  EXPECT_EQ(blobs_.Text(drawn.records[1]), "1.0");
  pool_->Release(&drawn);
}

TEST_F(RecordPoolTest, ManyShortDrawsWaitNoLongerForAFullerPoolThanOne) {
  using std::chrono::milliseconds;
  Make(1 << 20);
  ASSERT_TRUE(pool_->SetShards(100));
  Add(0, 1);
  Drawn drawn;
  bool end = false;
  const auto give_up_at = Clock::now() + std::chrono::seconds(20);
  Status drew(Code::kUnknown, "");
  while (!drew.ok() && Clock::now() < give_up_at) {
    drew = pool_->Draw(1, &drawn, &end, {}, Clock::now() + milliseconds(1));
  }
  EXPECT_TRUE(drew.ok());
  pool_->Release(&drawn);
}

}  // namespace
}  // namespace tfquiver
