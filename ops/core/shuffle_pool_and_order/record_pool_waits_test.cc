// What ends a wait of the taker.

#include <chrono>
#include <thread>

#include "ops/core/shuffle_pool_and_order/record_pool.h"
#include "ops/testing/test_record_pool.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

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

// It would take seconds until small shards fill a pool: they come one by one.
TEST_F(RecordPoolTest, DoesNotWaitForMoreThanManySmallShards) {
  Make(64 << 20, 0, {}, {}, std::chrono::hours(1));
  ASSERT_TRUE(pool_->SetShards(100'000));
  const auto drawn = [this] {
    Drawn drawn;
    bool end = false;
    const Status status = pool_->Draw(1, &drawn, &end, {}, Clock::now());
    pool_->Release(&drawn);
    return status.code();
  };
  for (uint32_t shard = 0; shard < 255; ++shard) Add(shard, 1);
  EXPECT_EQ(drawn(), Code::kDeadlineExceeded);
  Add(255, 1);
  for (int i = 0; i < 128; ++i) EXPECT_EQ(drawn(), Code::kOk);
  EXPECT_EQ(drawn(), Code::kOk);
  EXPECT_EQ(drawn(), Code::kDeadlineExceeded);  // fewer than half of them are left
}

TEST_F(RecordPoolTest, ASilentNodeDoesNotHoldUpWhatIsHere) {
  Make(1 << 20);
  ASSERT_TRUE(pool_->SetShards(100));
  Add(0, 3);
  EXPECT_EQ(Draw(3).size(), 3u);
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
