#include "ops/core/reader_and_its_conversation_with_the_node/reader.h"

#include "ops/testing/test_reader.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

TEST_F(ReaderTest, ReadsASession) {
  node_.Start();
  Make(50'000);
  ExpectEachOnce(ReadAll(8));
  Finish();
  EXPECT_EQ(node_.acked.size(), static_cast<size_t>(FakeNode::kShards));
  EXPECT_EQ(node_.complete, 1);
}

TEST_F(ReaderTest, AnUnfinishedBatchDoesNotKeepTheSessionOpen) {
  node_.Start();
  Make(50'000);
  ExpectEachOnce(ReadAll(7));
  Finish();
  EXPECT_LT(node_.acked.size(), static_cast<size_t>(FakeNode::kShards));
  EXPECT_EQ(node_.complete, 1);
}

// The credit there is was for the one shard that is another's now: without it nothing more comes.
TEST_F(ReaderTest, EmitsNothingOfAShardThatIsTakenBackBeforeItIsLoaded) {
  readahead_bytes_ = 500;
  node_.takes_back = 0;
  on_opened_ = [this] {
    Wait(-1, 0, node_.has_taken_back.get(), Clock::now() + std::chrono::seconds(30));
  };
  node_.Start();
  const auto began = Clock::now();
  Make(0);
  const std::map<std::string, int> counts = ReadAll(1);
  EXPECT_TRUE(Clock::now() - began < std::chrono::seconds(25));
  Finish();
  EXPECT_EQ(counts.size(), node_.expected().size() - FakeNode::kRecords);
  for (const auto& [record, count] : counts) EXPECT_TRUE(record.rfind("0.", 0) != 0) << record;
  EXPECT_EQ(node_.acked.size(), static_cast<size_t>(FakeNode::kShards) - 1);
}

TEST_F(ReaderTest, WhoLeavesBetweenTheEndAndItsTakingHasHadAllTheSame) {
  node_.Start();
  Make(50'000);
  Drawn drawn;
  bool end = false;
  while (!end) {  // the last batch, which is not full, is waited for until END has come
    ASSERT_TRUE(reader_->pool().Draw(7, &drawn, &end).ok());
    reader_->pool().Release(&drawn);
  }
  ASSERT_FALSE(reader_->pool().end_delivered());
  Finish();
  EXPECT_EQ(node_.acked.size(), static_cast<size_t>(FakeNode::kShards));
  EXPECT_EQ(node_.complete, 0);
}

TEST_F(ReaderTest, ReportsAllThatWasTakenBeforeItLeaves) {
  node_.report_ms = 100;
  node_.Start();
  Make(50'000);
  ExpectEachOnce(ReadAll(8));
  Finish();
  ASSERT_FALSE(node_.reports.empty());
  uint64_t last[4];
  ASSERT_EQ(node_.reports.back().size(), sizeof(last));
  std::memcpy(last, node_.reports.back().data(), sizeof(last));
  uint64_t bytes = 0;
  for (const std::string& record : node_.expected()) bytes += record.size() + kRecordFramingBytes;
  EXPECT_EQ(last[0], uint64_t{FakeNode::kShards * FakeNode::kRecords});
  EXPECT_EQ(last[1], bytes);
  EXPECT_GT(last[2], 0u);  // for the first shard
  EXPECT_LE(last[2], last[3]);
}

TEST_F(ReaderTest, ReportsNothingToANodeThatDidNotAskForIt) {
  node_.Start();
  Make(50'000);
  ReadAll(8);
  Finish();
  EXPECT_TRUE(node_.reports.empty());
}

TEST_F(ReaderTest, StopsWhileItWaits) {
  node_.silent = true;
  node_.Start();
  Make(50'000);
  Drawn drawn;
  bool end = false;
  const auto cancel = [this] { reader_->pool().CancelDraw(); };
  EXPECT_EQ(reader_->pool().Draw(1, &drawn, &end, cancel).code(), Code::kCancelled);
  Finish();
  EXPECT_NE(node_.complete, 1);
}

TEST_F(ReaderTest, StopsInTheMiddle) {
  node_.Start();
  Make(50'000);
  Drawn drawn;
  bool end = false;
  ASSERT_TRUE(reader_->pool().Draw(100, &drawn, &end).ok());
  for (const Record& record : drawn.records) blobs_.Text(record);
  reader_->pool().Release(&drawn);
  Finish();
  EXPECT_EQ(node_.complete, 0);
}

}  // namespace
}  // namespace tfquiver
