#include "ops/core/progress_and_checkpoints/checkpoint.h"

#include <map>
#include <memory>

#include "ops/core/progress_and_checkpoints/rewind.h"
#include "ops/core/shuffle_pool_and_order/random.h"
#include "ops/testing/test_support.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

// Stands for zlib: a length and the bytes.
std::string Store(const std::string& bytes) { return std::to_string(bytes.size()) + ":" + bytes; }
bool Unstore(std::string_view stored, size_t size, std::string* bytes) {
  const std::string prefix = std::to_string(size) + ":";
  if (stored.size() != prefix.size() + size || stored.substr(0, prefix.size()) != prefix)
    return false;
  *bytes = std::string(stored.substr(prefix.size()));
  return true;
}
constexpr ZlibCodec kCodec{&Store, &Unstore};

const std::string kDigest(32, 'd');

Checkpoint Sample() {
  Checkpoint checkpoint;
  checkpoint.shuffled = true;
  checkpoint.order_seed = 12345;
  checkpoint.digest_id = kDigest;
  checkpoint.marks.shards = 21;
  checkpoint.marks.done = {1, 0, 2};  // 0 and 17
  checkpoint.marks.partly = {{1, 5}, {9, 300}, {20, 1}};
  checkpoint.epoch = 7;
  checkpoint.script.wanted = {9, 4, 20};
  checkpoint.script.draws = {4, 9, 9, 20, 4};
  checkpoint.script.credit_bytes = 123'456;
  return checkpoint;
}

Status Read(const std::string& bytes, Checkpoint* checkpoint) {
  return ReadCheckpoint(bytes, kDigest, &SlowCrc32c, kCodec, checkpoint);
}

std::string Write(const Checkpoint& checkpoint) {
  return WriteCheckpoint(checkpoint, &SlowCrc32c, kCodec);
}

TEST(Checkpoint, ComesBack) {
  Checkpoint written = Sample();
  for (int round = 0; round < 3; ++round) {
    Checkpoint read;
    ASSERT_TRUE(Read(Write(written), &read).ok());
    EXPECT_EQ(read.ended, written.ended);
    EXPECT_TRUE(read.shuffled);
    EXPECT_EQ(read.order_seed, 12345u);
    EXPECT_EQ(read.marks.shards, 21u);
    EXPECT_EQ(read.marks.done, written.marks.done);
    EXPECT_EQ(read.marks.partly, written.marks.partly);
    EXPECT_EQ(read.epoch, 7);
    EXPECT_EQ(read.script.wanted, written.script.wanted);
    EXPECT_EQ(read.script.draws, written.script.draws);
    EXPECT_EQ(read.script.credit_bytes, 123'456u);
    written.ended = !written.ended;
    written.marks.done[0] = static_cast<uint8_t>(written.marks.done[0] << 1);
  }
}

TEST(Checkpoint, OfNothingComesBack) {
  Checkpoint written;
  written.digest_id = kDigest;
  Checkpoint read;
  ASSERT_TRUE(Read(Write(written), &read).ok());
  EXPECT_EQ(read.marks.shards, 0u);
  EXPECT_EQ(read.epoch, -1);
}

// As it was before there were scripts, and epochs in it.
TEST(Checkpoint, OfVersionOneCanBeRead) {
  const auto number = [](auto value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  const std::string done = Store(std::string("\1\0\2", 3));
  std::string bytes = std::string("TQIT\1\2", 6) + kDigest + number(uint64_t{12345}) +
                      number(uint64_t{21}) + number(static_cast<uint32_t>(done.size())) + done +
                      std::string("\2\1\5\10\377\1", 6);
  bytes += number(SlowCrc32c(0, bytes.data(), bytes.size()));
  Checkpoint read;
  ASSERT_TRUE(Read(bytes, &read).ok());
  EXPECT_EQ(read.order_seed, 12345u);
  EXPECT_EQ(read.epoch, -1);
  EXPECT_EQ(read.marks.partly, (std::map<uint32_t, uint32_t>{{1, 5}, {9, 255}}));
  EXPECT_TRUE(read.script.draws.empty());
}

TEST(Checkpoint, AScriptOfWhatCannotComeIsRefused) {
  Checkpoint read;
  for (std::vector<uint32_t> wanted :
       {std::vector<uint32_t>{9, 4, 21}, {9, 4, 4, 20}, {0, 9, 4, 20}, {17, 9, 4, 20}}) {
    Checkpoint written = Sample();  // of which shards 0 and 17 are done
    written.script.wanted = wanted;
    written.script.draws = {wanted[0]};
    EXPECT_EQ(Read(Write(written), &read).code(), Code::kInvalidArgument) << wanted[0];
  }
}

TEST(Rewind, GoesBackToBeforeTheSteps) {
  Checkpoint checkpoint = Sample();
  checkpoint.marks.done = {1, 1, 2};
  // Shard 17 (done) gave its last two, 1 its records 3 and 4, 8 (done) its only one.
  Rewind({{17, 30, 5}, {1, 3, 4}, {17, 31, 5}, {8, 0, 6}, {1, 4, 4}}, &checkpoint);
  EXPECT_EQ(checkpoint.marks.done, (std::vector<uint8_t>{1, 0, 0}));
  EXPECT_EQ(checkpoint.marks.partly,
            (std::map<uint32_t, uint32_t>{{1, 3}, {9, 300}, {17, 30}, {20, 1}}));
  EXPECT_EQ(checkpoint.script.draws, (std::vector<uint32_t>{17, 1, 17, 8, 1, 4, 9, 9, 20, 4}));
  EXPECT_EQ(checkpoint.script.wanted, (std::vector<uint32_t>{9, 4, 20, 1, 17, 8}));
}

// Of a script that was begun, the first shards are through: 8, 15 and 16 joined before 2 and 3.
TEST(Rewind, KeepsTheOrderInWhichShardsJoined) {
  Checkpoint checkpoint = Sample();
  checkpoint.script.wanted = {16, 2, 3};
  checkpoint.script.joined = {2, 3, 4};
  checkpoint.script.draws = {16, 2, 3};
  Rewind({{8, 0, 0}, {15, 0, 1}, {16, 0, 2}}, &checkpoint);
  EXPECT_EQ(checkpoint.script.draws, (std::vector<uint32_t>{8, 15, 16, 16, 2, 3}));
  EXPECT_EQ(checkpoint.script.wanted, (std::vector<uint32_t>{8, 15, 16, 2, 3}));
}

TEST(Trail, KeepsWhatAMarkNeeds) {
  auto trail = std::make_shared<Trail>();
  trail->Append({1, 0, 0});
  EXPECT_EQ(trail->kept(), 0u);
  Trail::Mark first = trail->End();
  for (uint32_t i = 0; i < 10; ++i) trail->Append({2, i, 1});
  Trail::Mark second = trail->End();
  Trail::Mark copy = first;
  trail->Append({3, 0, 2});
  EXPECT_EQ(trail->Since(first).size(), 11u);
  EXPECT_EQ(trail->Since(second)[0].shard, 3u);
  first = Trail::Mark();
  EXPECT_EQ(trail->kept(), 11u);
  copy = second;
  EXPECT_EQ(trail->kept(), 1u);
  EXPECT_EQ(trail->Since(copy).size(), 1u);
  second = copy = Trail::Mark();
  EXPECT_EQ(trail->kept(), 0u);
}

TEST(Checkpoint, EveryDamageIsRefused) {
  const std::string bytes = Write(Sample());
  Checkpoint read;
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_EQ(Read(damaged, &read).code(), Code::kInvalidArgument) << at;
    EXPECT_EQ(Read(bytes.substr(0, at), &read).code(), Code::kInvalidArgument) << at;
  }
}

TEST(Checkpoint, DamageWithARightChecksumIsRefusedOrHarmless) {
  const std::string bytes = Write(Sample());
  Random random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = bytes.substr(0, bytes.size() - 4);
    damaged[random.Below(damaged.size())] = static_cast<char>(random.Next());
    if (random.Below(4) == 0) damaged.resize(random.Below(damaged.size() + 1));
    const uint32_t crc = SlowCrc32c(0, damaged.data(), damaged.size());
    damaged.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
    Checkpoint read;
    if (!Read(damaged, &read).ok()) continue;
    EXPECT_EQ(read.marks.done.size(), (read.marks.shards + 7) / 8);
    for (const auto& [shard, emitted] : read.marks.partly) EXPECT_LT(shard, read.marks.shards);
    for (uint32_t shard : read.script.draws) EXPECT_LT(shard, read.marks.shards);
  }
}

TEST(Checkpoint, OfAnotherDataSetIsRefused) {
  const std::string bytes = Write(Sample());
  Checkpoint read;
  const std::string other(32, 'o');
  const Status status = ReadCheckpoint(bytes, other, &SlowCrc32c, kCodec, &read);
  EXPECT_NE(status.message().find("another data set"), std::string::npos);
}

TEST(Checkpoint, IsSmall) {
  Checkpoint checkpoint = Sample();
  checkpoint.marks.shards = 10'000;
  checkpoint.marks.done.assign(1250, 0x55);
  checkpoint.script = Script{};
  for (uint32_t shard = 0; shard < 10'000; ++shard) checkpoint.marks.partly[shard] = 8000;
  EXPECT_LT(Write(checkpoint).size(), 64u << 10);
}

}  // namespace
}  // namespace tfquiver
