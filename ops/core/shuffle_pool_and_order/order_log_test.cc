#include "ops/core/shuffle_pool_and_order/order_log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "ops/core/node_messages_socket_tickets/frame.h"
#include "ops/testing/test_support.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

constexpr size_t kHeadBytes = 92;
constexpr size_t kOneEntryBytes = 16;

class OrderLogTest : public ::testing::Test {
 protected:
  OrderLogTest() {
    std::string pattern = P_tmpdir "/tfqXXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    header_.digest_id = std::string(kIdBytes, 'd');
    header_.epoch = 3;
    header_.draw_seed = 11;
    header_.order_seed = 12;
    header_.shuffle_bytes = 1000;
    header_.readahead_bytes = 2000;
    header_.shards = 4;
    path_ = OrderLogPath(folder_, 3);
  }
  ~OrderLogTest() override {
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }

  void Write(bool end) {
    std::unique_ptr<OrderLogWriter> writer;
    ASSERT_TRUE(OrderLogWriter::Create(folder_, header_, &SlowCrc32c, &writer).ok());
    ASSERT_TRUE(writer->Append({{2, 0, false}, {0, 0, false}}));
    ASSERT_TRUE(writer->Append({{2, 17, true}, {1, uint64_t{1} << 40, false}}));
    if (end) {
      ASSERT_TRUE(writer->End(uint64_t{1} << 41));
    }
  }
  std::string Bytes() {
    std::ifstream file(path_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  Status ReadOf(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    std::string path;
    return ReadOrderLog(folder_, 3, &SlowCrc32c, &log_, &path);
  }

  std::string folder_;
  std::string path_;
  OrderHeader header_;
  OrderLog log_;
};

TEST_F(OrderLogTest, WhatIsWrittenIsRead) {
  Write(true);
  const std::string bytes = Bytes();
  EXPECT_EQ(bytes.size(), kHeadBytes + 5 * kOneEntryBytes);
  std::string path;
  for (const std::string& name : {folder_, path_}) {
    ASSERT_TRUE(ReadOrderLog(name, 3, &SlowCrc32c, &log_, &path).ok());
    EXPECT_EQ(path, path_);
    EXPECT_EQ(log_.header.draw_seed, 11u);
    EXPECT_EQ(log_.header.order_seed, 12u);
    ASSERT_EQ(log_.entries.size(), 4u);
    EXPECT_TRUE(log_.entries[2].leaves);
    EXPECT_EQ(log_.entries[2].drawn, 17u);
    EXPECT_EQ(log_.entries[3].drawn, uint64_t{1} << 40);
    EXPECT_TRUE(log_.whole);
  }
}

TEST_F(OrderLogTest, ATornTailIsLeftOut) {
  Write(true);
  const std::string bytes = Bytes();
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const Status status = ReadOf(bytes.substr(0, size));
    EXPECT_EQ(status.ok(), size >= kHeadBytes) << size;
    if (!status.ok()) continue;
    const size_t whole = (size - kHeadBytes) / kOneEntryBytes;
    EXPECT_EQ(log_.entries.size(), std::min<size_t>(whole, 4));
    EXPECT_EQ(log_.whole, whole == 5);
  }
}

TEST_F(OrderLogTest, EveryDamagedByteIsFoundAndTheLogIsNamed) {
  Write(true);
  const std::string bytes = Bytes();
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    const Status status = ReadOf(damaged);
    EXPECT_FALSE(status.ok()) << at;
    EXPECT_NE(status.message().find(path_), std::string::npos);
  }
  EXPECT_EQ(ReadOf(bytes + "0123456789").code(), Code::kDataLoss);
}

TEST_F(OrderLogTest, NothingIsWrittenOver) {
  Write(false);
  std::unique_ptr<OrderLogWriter> writer;
  const Status status = OrderLogWriter::Create(folder_, header_, &SlowCrc32c, &writer);
  EXPECT_EQ(status.code(), Code::kAlreadyExists);
  EXPECT_NE(status.message().find(path_), std::string::npos);
}

TEST_F(OrderLogTest, ALogThatIsNotThereIsNamed) {
  std::string path;
  const Status status = ReadOrderLog(folder_, 3, &SlowCrc32c, &log_, &path);
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find(path_), std::string::npos);
}

TEST_F(OrderLogTest, OnlyWhatItWasWrittenWithReplaysIt) {
  OrderLog log;
  log.header = header_;
  const std::string id = header_.digest_id;
  EXPECT_TRUE(CheckReplayable(log, "L", id, 4, 1000, 2000).ok());
  for (const Status& status :
       {CheckReplayable(log, "L", std::string(kIdBytes, 'e'), 4, 1000, 2000),
        CheckReplayable(log, "L", id, 5, 1000, 2000), CheckReplayable(log, "L", id, 4, 999, 2000),
        CheckReplayable(log, "L", id, 4, 1000, 1)}) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find("order log L"), std::string::npos);
  }
  log.header.restored = true;
  EXPECT_FALSE(CheckReplayable(log, "L", id, 4, 1000, 2000).ok());
}

}  // namespace
}  // namespace tfquiver
