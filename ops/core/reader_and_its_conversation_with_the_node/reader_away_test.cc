// A node that goes away, or hangs, and a process that runs out of descriptors.

#include "ops/testing/test_reader.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

class ReaderAwayTest : public ReaderTest {};

TEST_F(ReaderAwayTest, GoesOnWhenTheNodeComesBack) {
  node_.hang_ups = 2;
  node_.Start();
  Make(50'000);
  ExpectEachOnce(ReadAll(1));
  Finish();
  EXPECT_EQ(node_.opens, 3);
  EXPECT_GT(node_.held, 0u);
  EXPECT_EQ(node_.complete, 1);
}

TEST_F(ReaderAwayTest, DoesNotOpenAtANodeThatWasNotToldUntilItIs) {
  int asked = 0;  // on the reader's thread
  is_told_ = [&asked] { return ++asked > 3; };
  node_.Start();
  Make(50'000);
  ExpectEachOnce(ReadAll(1));
  Finish();
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(node_.opens, 1);
}

TEST_F(ReaderAwayTest, FailsWhereTheNodeIsNotToldForLongerThanItMayBeAway) {
  is_told_ = [] { return false; };
  connect_ms_ = 300;
  node_.Start();
  Make(50'000);
  Drawn drawn;
  bool end = false;
  const Status status = reader_->pool().Draw(1, &drawn, &end);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_TRUE(status.message().find("has not told it yet") != std::string::npos)
      << status.message();
  Finish();
  EXPECT_EQ(node_.opens, 0);
}

TEST_F(ReaderAwayTest, GoesOnWhenANodeThatHungIsBack) {
  std::vector<std::string> warnings;  // on the reader's thread
  on_warning_ = [&](const std::string& message) { warnings.push_back(message); };
  node_.hangs = 1;
  node_.report_ms = 100;
  node_.Start();
  Make(50'000, /*reconnect_ms=*/30'000, /*silence_ms=*/600);
  ExpectEachOnce(ReadAll(1));
  Finish();
  EXPECT_EQ(node_.opens, 2);
  ASSERT_GE(warnings.size(), 2u);
  EXPECT_TRUE(warnings[0].find("has not answered for ") != std::string::npos) << warnings[0];
  EXPECT_TRUE(warnings[1].find("connecting again") != std::string::npos) << warnings[1];
}

TEST_F(ReaderAwayTest, FailsWhereTheNodeHangsForLongerThanItMayBeAway) {
  node_.hangs = 1000;
  node_.report_ms = 100;
  node_.Start();
  Make(50'000, /*reconnect_ms=*/1200, /*silence_ms=*/600);
  Drawn drawn;
  bool end = false;
  Status status;
  while (status.ok()) {
    status = reader_->pool().Draw(8, &drawn, &end);
    if (!status.ok()) break;
    for (const Record& record : drawn.records) blobs_.Text(record);
    reader_->pool().Release(&drawn);
  }
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_TRUE(status.message().find(" answer") != std::string::npos) << status.message();
  Finish();
}

// A data loader that opens many files for a moment must not end a training.
TEST_F(ReaderAwayTest, GoesOnWhenItsProcessHasDescriptorsAgain) {
  const rlim_t usual = DescriptorLimit(0, /*set=*/false);
  std::vector<std::string> warnings;  // on the reader's thread
  on_warning_ = [&](const std::string& message) {
    warnings.push_back(message);
    DescriptorLimit(usual);
  };
  node_.starves = true;
  node_.Start();
  Make(50'000);
  ExpectEachOnce(ReadAll(1));
  Finish();
  DescriptorLimit(usual);
  EXPECT_EQ(node_.opens, 2);
  ASSERT_FALSE(warnings.empty());
  EXPECT_TRUE(warnings[0].find("too many open files in this process (ulimit -n)") !=
              std::string::npos)
      << warnings[0];
}

TEST_F(ReaderAwayTest, GivesUpWhenTheNodeStaysAway) {
  node_.silent = true;
  Make(0, /*reconnect_ms=*/0);  // the node listens, and nobody accepts
  std::thread stopper([this] { reader_->pool().CancelDraw(); });
  stopper.join();
  reader_->Stop();
  thread_.join();
  reader_.reset();
  node_.Start();
}

}  // namespace
}  // namespace tfquiver
