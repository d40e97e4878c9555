#include "ops/core/shard_loading/shard_intake.h"

#include <new>
#include <string>

#include "ops/testing/test_support.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

using Outcome = ShardIntake::Outcome;

class ShardIntakeTest : public ::testing::Test {
 protected:
  static constexpr size_t kLarge = 300'000;              // worth a second thread
  static constexpr uint64_t kSmallBytes = 2 * (16 + 2);  // of two records, framed

  ShardIntakeTest() {
    PoolOptions options;
    options.capacity_bytes = 10 * kLarge;
    pool_ = std::make_unique<RecordPool>(options, Marks{}, &blocks_, [] {});
    EXPECT_TRUE(pool_->SetShards(10));
    intake_ = std::make_unique<ShardIntake>(pool_.get(), &loader_, &other_, &stop_);
  }

  // Shard `shard` with the records "<shard>a" and "<shard>b", and so many zeros behind them.
  void Accept(uint32_t shard, bool damaged = false, size_t zeros = 0) {
    const std::string name = std::to_string(shard);
    const std::string bytes = Framed({name + "a" + std::string(zeros, '0'), name + "b"});
    ShardFrame frame;
    frame.shard = shard;
    frame.length_bytes = bytes.size();
    frame.records = 2;
    frame.crc32c = SlowCrc32c(0, bytes.data(), bytes.size()) ^ (damaged ? 1 : 0);
    intake_->Accept(frame, Memory(bytes, /*sealed=*/false));
  }

  std::vector<std::string> Draw(size_t want) {
    Drawn drawn;
    bool end = false;
    EXPECT_TRUE(pool_->Draw(want, &drawn, &end).ok());
    std::vector<std::string> texts;
    for (const Record& record : drawn.records) texts.push_back(blobs_.Text(record).substr(0, 2));
    pool_->Release(&drawn);
    return texts;
  }

  BlockPool blocks_{4};
  StringBlobs blobs_;
  std::atomic<bool> stop_{false};
  std::unique_ptr<RecordPool> pool_;
  ShardLoader loader_{&SlowCrc32c, &blocks_, &blobs_, /*shuffled=*/false, &stop_};
  ShardLoader other_{&SlowCrc32c, &blocks_, &blobs_, /*shuffled=*/false, &stop_};
  std::unique_ptr<ShardIntake> intake_;
};

TEST_F(ShardIntakeTest, LoadsInTheOrderOfArrivalUntilItIsFull) {
  uint32_t shard = 0;
  while (!intake_->full()) Accept(shard++);
  EXPECT_GE(shard, 2u);
  for (uint32_t expected = 0; expected < shard; ++expected) {
    const ShardIntake::Result loaded = intake_->LoadNext();
    EXPECT_TRUE(loaded.outcome == Outcome::kPooled) << loaded.why;
    EXPECT_EQ(loaded.shard, expected);
    EXPECT_FALSE(intake_->full());
  }
  EXPECT_TRUE(intake_->empty());
  EXPECT_EQ(Draw(4), (std::vector<std::string>{"0a", "0b", "1a", "1b"}));
}

TEST_F(ShardIntakeTest, WhatIsHereOrWasReadIsNotNeeded) {
  Accept(3);
  Accept(3);
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kPooled);
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kNotNeeded);
  Draw(2);
  Accept(3);
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kNotNeeded);
  EXPECT_TRUE(pool_->TakeOutbox().empty);
}

TEST_F(ShardIntakeTest, CountsHowOftenAShardWasBadAcrossConnections) {
  for (int time = 1; time <= 3; ++time) {
    Accept(4, /*damaged=*/true);
    const ShardIntake::Result loaded = intake_->LoadNext();
    EXPECT_TRUE(loaded.outcome == Outcome::kBad);
    EXPECT_EQ(loaded.shard, 4u);
    EXPECT_EQ(loaded.times_bad, time);
    EXPECT_EQ(loaded.why, "its checksum is wrong");
    intake_->Forget();
  }
  EXPECT_TRUE(pool_->Lacks(4));
  Accept(4);
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kPooled);
}

TEST_F(ShardIntakeTest, AShardWithoutADescriptorIsBad) {
  ShardFrame frame;
  frame.shard = 1;
  intake_->Accept(frame, UniqueFd());
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kBad);
}

TEST_F(ShardIntakeTest, ALoadThatIsStoppedIsNobodysFault) {
  Accept(2);
  stop_.store(true);
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kStopped);
}

TEST_F(ShardIntakeTest, ForgetsWhatWasNotLoaded) {
  Accept(5);
  intake_->Forget();
  EXPECT_TRUE(intake_->empty());
  EXPECT_TRUE(pool_->Lacks(5));
}

TEST_F(ShardIntakeTest, WhatIsDroppedBeforeItIsLoadedIsNotPooledAndItsCreditGivenBack) {
  for (const uint32_t shard : {1u, 2u, 3u, 2u}) Accept(shard);
  EXPECT_FALSE(intake_->Drop(4));
  EXPECT_TRUE(intake_->Drop(2));
  EXPECT_FALSE(intake_->Drop(2));
  EXPECT_EQ(pool_->TakeOutbox().credit_bytes, 2 * kSmallBytes);
  EXPECT_TRUE(pool_->Lacks(2));
  EXPECT_EQ(intake_->LoadNext().shard, 1u);
  EXPECT_EQ(intake_->LoadNext().shard, 3u);
  EXPECT_TRUE(intake_->empty());
  EXPECT_EQ(Draw(4), (std::vector<std::string>{"1a", "1b", "3a", "3b"}));
  Accept(2);  // it may come again
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kPooled);
}

TEST_F(ShardIntakeTest, TheSecondIsDroppedWithItsCreditUnlessThatWasGivenBack) {
  for (const uint32_t shard : {0u, 1u}) Accept(shard, /*damaged=*/false, kLarge);
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kPooled);
  EXPECT_TRUE(intake_->Drop(1));
  EXPECT_TRUE(intake_->empty());
  EXPECT_TRUE(pool_->Lacks(1));
  EXPECT_EQ(pool_->TakeOutbox().credit_bytes, kLarge + kSmallBytes);
  EXPECT_EQ(Draw(2), (std::vector<std::string>{"0a", "0b"}));
  pool_->TakeOutbox();
  for (const uint32_t shard : {2u, 0u}) Accept(shard, /*damaged=*/false, kLarge);  // one is read
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kPooled);
  EXPECT_TRUE(intake_->Drop(0));
  EXPECT_EQ(pool_->TakeOutbox().credit_bytes, kLarge + kSmallBytes);
}

TEST_F(ShardIntakeTest, APoolThatKeepsWhatIsHereKeepsWhatHasCome) {
  pool_->SetOrder(std::make_unique<BlockGate>(/*alone=*/true), 1, 1, /*logged=*/false);
  Accept(2);
  EXPECT_TRUE(intake_->Drop(2));
  EXPECT_FALSE(intake_->empty());
  EXPECT_EQ(pool_->TakeOutbox().credit_bytes, 0u);
}

TEST_F(ShardIntakeTest, LargeOnesThatAreLoadedSideBySideKeepTheirOrder) {
  for (uint32_t shard = 0; shard < 5; ++shard) Accept(shard, /*damaged=*/shard == 3, kLarge);
  for (uint32_t shard = 0; shard < 5; ++shard) {
    EXPECT_FALSE(intake_->empty());
    const ShardIntake::Result loaded = intake_->LoadNext();
    EXPECT_EQ(loaded.shard, shard);
    EXPECT_TRUE(loaded.outcome == (shard == 3 ? Outcome::kBad : Outcome::kPooled)) << shard;
  }
  EXPECT_TRUE(intake_->empty());
  EXPECT_EQ(Draw(8), (std::vector<std::string>{"0a", "0b", "1a", "1b", "2a", "2b", "4a", "4b"}));
}

TEST_F(ShardIntakeTest, OneThatComesTwiceIsLoadedOnce) {
  for (const uint32_t shard : {3u, 3u, 3u, 4u}) Accept(shard, /*damaged=*/false, kLarge);
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kPooled);
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kNotNeeded);
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kNotNeeded);
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kPooled);
  EXPECT_EQ(Draw(4), (std::vector<std::string>{"3a", "3b", "4a", "4b"}));
}

TEST_F(ShardIntakeTest, TheSecondIsForgottenWithTheConnection) {
  for (const uint32_t shard : {0u, 1u}) Accept(shard, /*damaged=*/false, kLarge);
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kPooled);
  intake_->Forget();
  EXPECT_TRUE(intake_->empty());
  EXPECT_TRUE(pool_->Lacks(1));
  Accept(1, /*damaged=*/false, kLarge);
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kPooled);
  EXPECT_EQ(Draw(4), (std::vector<std::string>{"0a", "0b", "1a", "1b"}));
}

TEST_F(ShardIntakeTest, BothAreStopped) {
  for (const uint32_t shard : {0u, 1u}) Accept(shard, /*damaged=*/false, kLarge);
  stop_.store(true);
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kStopped);
  EXPECT_TRUE(intake_->LoadNext().outcome == Outcome::kStopped);
}

TEST(Companion, DoesOneThingAfterTheOtherAndGivesWhatWasThrownToWhoWaits) {
  Companion companion;
  int done = 0;
  for (int time = 1; time <= 3; ++time) {
    EXPECT_TRUE(companion.Begin([&done] { ++done; }));
    companion.Join();
    EXPECT_EQ(done, time);
  }
  EXPECT_TRUE(companion.Begin([] { throw std::bad_alloc(); }));
  bool caught = false;
  try {
    companion.Join();
  } catch (const std::bad_alloc&) {
    caught = true;
  }
  EXPECT_TRUE(caught);
  EXPECT_TRUE(companion.Begin([&done] { done = 10; }));
  companion.Join();
  EXPECT_EQ(done, 10);
}

}  // namespace
}  // namespace tfquiver
