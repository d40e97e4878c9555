#include "ops/core/shuffle_pool_and_order/record_pool.h"

#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ops/testing/test_record_pool.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

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

TEST_F(RecordPoolTest, MemoryGoesWithTheLastRecordsWhenAllHasCome) {
  Make(1 << 20);
  ASSERT_TRUE(pool_->SetShards(2));
  for (uint32_t shard = 0; shard < 2; ++shard) {
    auto filled = std::make_unique<ShardRecords>(shard, 200'000, &blocks_, &blobs_);
    for (int i = 0; i < 180; ++i) filled->AppendSmall(std::string(1000, 'x').data(), 1000);
    pool_->Add(std::move(filled), 200'000);
  }
  Draw(1);
  EXPECT_EQ(blocks_.mapped_bytes(), Slabs::kLeastSlabBytes);
  pool_->End();
  EXPECT_EQ(Draw(1000).size(), 359u);
  EXPECT_EQ(blocks_.mapped_bytes(), 0u);
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

}  // namespace
}  // namespace tfquiver
