#include "ops/core/shard_loading/shard_loader.h"

#include <algorithm>

#include "ops/testing/test_support.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

struct Case {
  ShardKind kind;
  bool sealed;
  size_t record_bytes;
  bool shares = true;  // strings can
};

class ShardLoaderTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    for (int i = 0; i < 20; ++i) {
      records_.push_back(std::string(GetParam().record_bytes + static_cast<size_t>(i), 'a' + i));
    }
    records_[3] = "";
    const std::string bytes = Framed(records_);
    padded_ = std::string(5000, 'x') + bytes + "after";
    frame_.shard = 7;
    frame_.kind = GetParam().kind;
    frame_.offset = 5000;
    frame_.length_bytes = bytes.size();
    frame_.crc32c = SlowCrc32c(0, bytes.data(), bytes.size());
    frame_.records = 20;
    fd_ = Memory(padded_, GetParam().sealed);
  }

  std::vector<std::string> Load(bool shuffled, uint32_t skip, uint64_t seed = 1) {
    ShardLoader loader(&SlowCrc32c, &blocks_, &blobs_, shuffled, &stop_);
    loader.set_order_seed(seed);
    auto shard = loader.Load(frame_, fd_, skip, &why_);
    std::vector<std::string> texts;
    if (shard == nullptr) return texts;
    EXPECT_EQ(shard->taken(), skip);
    EXPECT_EQ(shard->left(), 20 - skip);
    std::vector<BlockPool::Block> retired;
    while (shard->left() > 0) {
      const uint64_t before = shard->left_bytes();
      texts.push_back(blobs_.Text(shard->Take(&retired)));
      EXPECT_EQ(before - shard->left_bytes(), texts.back().size() + kRecordFramingBytes);
    }
    EXPECT_EQ(shard->left_bytes(), 0u);
    return texts;
  }

  std::vector<std::string> Emitted(bool shuffled, uint32_t skip) {
    ShardLoader loader(&SlowCrc32c, &blocks_, &blobs_, shuffled, &stop_);
    auto shard = loader.Load(frame_, fd_, skip, &why_);
    std::vector<std::string> texts;
    std::vector<BlockPool::Block> retired;
    while (shard != nullptr && shard->left() > 0)
      texts.push_back(blobs_.Text(shard->Take(&retired)));
    return texts;
  }

  std::vector<std::string> records_;
  std::string padded_;
  ShardFrame frame_;
  UniqueFd fd_;
  BlockPool blocks_{4};
  StringBlobs blobs_{GetParam().shares};
  std::atomic<bool> stop_{false};
  std::string why_;
};

TEST_P(ShardLoaderTest, GivesRecordsInOrder) { EXPECT_EQ(Load(false, 0), records_); }

TEST_P(ShardLoaderTest, ShufflesTheSameWayForTheSameSeed) {
  const auto one = Load(true, 0);
  EXPECT_NE(one, records_);
  EXPECT_EQ(Load(true, 0), one);
  EXPECT_NE(Load(true, 0, 2), one);
  auto sorted = one;
  auto expected = records_;
  std::sort(sorted.begin(), sorted.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(sorted, expected);
}

TEST_P(ShardLoaderTest, SkipsTheFirstOfTheEmissionOrder) {
  const auto all = Load(true, 0);
  for (uint32_t skip : {1u, 13u, 20u}) {
    EXPECT_EQ(Load(true, skip), std::vector<std::string>(all.begin() + skip, all.end()));
  }
  EXPECT_TRUE(Load(true, 21).empty());
}

TEST_P(ShardLoaderTest, GivesWhatIsPickedAsOftenAsItIs) {
  frame_.picks = std::string("\x0a\x00\x08", 3) + std::string("\x08\x00\x00", 3);
  const std::vector<std::string> picked = {records_[1], records_[3], records_[19], records_[3]};
  EXPECT_EQ(Emitted(false, 0), picked);
  EXPECT_EQ(Emitted(false, 3), std::vector<std::string>{records_[3]});
  const auto shuffled = Emitted(true, 0);
  EXPECT_TRUE(std::is_permutation(shuffled.begin(), shuffled.end(), picked.begin(), picked.end()));
  for (uint32_t skip : {1u, 3u, 4u}) {
    EXPECT_EQ(Emitted(true, skip),
              std::vector<std::string>(shuffled.begin() + skip, shuffled.end()));
  }
  EXPECT_TRUE(Emitted(true, 5).empty());
  EXPECT_EQ(why_, "the checkpoint has more of its records than it has");
  frame_.crc32c ^= 1;
  EXPECT_TRUE(Emitted(false, 0).empty());
  EXPECT_EQ(why_, "its checksum is wrong");
}

TEST_P(ShardLoaderTest, NothingIsPicked) {
  frame_.picks = std::string(3, '\0');
  EXPECT_TRUE(Emitted(true, 0).empty());
  EXPECT_EQ(why_, "");
}

TEST_P(ShardLoaderTest, RefusesWrongBytes) {
  frame_.crc32c ^= 1;
  EXPECT_TRUE(Load(false, 0).empty());
  EXPECT_EQ(why_, "its checksum is wrong");
}

TEST_P(ShardLoaderTest, RefusesWrongCountsAndPlaces) {
  frame_.records = 19;
  EXPECT_TRUE(Load(false, 0).empty());
  frame_.records = 21;
  EXPECT_TRUE(Load(false, 0).empty());
  frame_.records = 20;
  frame_.length_bytes += 6;
  EXPECT_TRUE(Load(false, 0).empty());
  EXPECT_EQ(why_, "it ends after the end of its file");
  frame_.length_bytes = ~uint64_t{0} - 100;
  EXPECT_TRUE(Load(false, 0).empty());
}

TEST_P(ShardLoaderTest, RefusesRecordsThatDoNotFillIt) {
  std::string bytes = Framed(records_);
  for (uint64_t length : {~uint64_t{0}, uint64_t{1} << 40, uint64_t{0}, bytes.size() - 15}) {
    std::string damaged = bytes;
    std::memcpy(damaged.data(), &length, sizeof(length));
    frame_.offset = 0;
    frame_.crc32c = SlowCrc32c(0, damaged.data(), damaged.size());
    fd_ = Memory(damaged, GetParam().sealed);
    EXPECT_TRUE(Load(false, 0).empty()) << length;
  }
}

TEST_P(ShardLoaderTest, NeedsADescriptor) {
  fd_.Reset();
  EXPECT_TRUE(Load(false, 0).empty());
}

INSTANTIATE_TEST_SUITE_P(
    Sources, ShardLoaderTest,
    ::testing::Values(Case{ShardKind::kFile, false, 100}, Case{ShardKind::kFile, false, 20'000},
                      Case{ShardKind::kMemory, true, 100}, Case{ShardKind::kMemory, true, 20'000},
                      Case{ShardKind::kMemory, false, 100}, Case{ShardKind::kFile, false, 70'000},
                      Case{ShardKind::kFile, false, 20'000, false},
                      Case{ShardKind::kMemory, true, 20'000, false}));

TEST(ShardLoader, StopsInTheMiddle) {
  const std::string bytes = Framed({std::string(1 << 20, 'x')});
  ShardFrame frame;
  frame.length_bytes = bytes.size();
  frame.records = 1;
  BlockPool blocks(1);
  StringBlobs blobs;
  std::atomic<bool> stop{true};
  std::string why;
  ShardLoader loader(&SlowCrc32c, &blocks, &blobs, false, &stop);
  EXPECT_EQ(loader.Load(frame, Memory(bytes, false), 0, &why), nullptr);
  EXPECT_EQ(why, "stopped");
}

TEST(ShardLoader, EmptyShard) {
  ShardFrame frame;
  BlockPool blocks(1);
  StringBlobs blobs;
  std::atomic<bool> stop{false};
  std::string why;
  ShardLoader loader(&SlowCrc32c, &blocks, &blobs, true, &stop);
  auto shard = loader.Load(frame, Memory("", true), 0, &why);
  ASSERT_NE(shard, nullptr);
  EXPECT_EQ(shard->left(), 0u);
}

}  // namespace
}  // namespace tfquiver
