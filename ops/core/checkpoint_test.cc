#include "ops/core/checkpoint.h"

#include "ops/core/random.h"
#include "ops/core/test_support.h"
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
  checkpoint.marks.done = {1, 0, 2};
  checkpoint.marks.partly = {{1, 5}, {9, 300}, {20, 1}};
  return checkpoint;
}

Status Read(const std::string& bytes, Checkpoint* checkpoint) {
  return ReadCheckpoint(bytes, kDigest, &SlowCrc32c, kCodec, checkpoint);
}

TEST(Checkpoint, ComesBack) {
  CheckpointWriter writer(&SlowCrc32c, kCodec);
  Checkpoint written = Sample();
  for (int round = 0; round < 3; ++round) {
    Checkpoint read;
    ASSERT_TRUE(Read(writer.Write(written), &read).ok());
    EXPECT_EQ(read.ended, written.ended);
    EXPECT_TRUE(read.shuffled);
    EXPECT_EQ(read.order_seed, 12345u);
    EXPECT_EQ(read.marks.shards, 21u);
    EXPECT_EQ(read.marks.done, written.marks.done);
    EXPECT_EQ(read.marks.partly, written.marks.partly);
    written.ended = !written.ended;
    written.marks.done[0] = static_cast<uint8_t>(written.marks.done[0] << 1);
  }
}

TEST(Checkpoint, OfNothingComesBack) {
  Checkpoint written;
  written.digest_id = kDigest;
  Checkpoint read;
  ASSERT_TRUE(Read(CheckpointWriter(&SlowCrc32c, kCodec).Write(written), &read).ok());
  EXPECT_EQ(read.marks.shards, 0u);
}

TEST(Checkpoint, EveryDamageIsRefused) {
  const std::string bytes = CheckpointWriter(&SlowCrc32c, kCodec).Write(Sample());
  Checkpoint read;
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_EQ(Read(damaged, &read).code(), Code::kInvalidArgument) << at;
    EXPECT_EQ(Read(bytes.substr(0, at), &read).code(), Code::kInvalidArgument) << at;
  }
}

TEST(Checkpoint, DamageWithARightChecksumIsRefusedOrHarmless) {
  const std::string bytes = CheckpointWriter(&SlowCrc32c, kCodec).Write(Sample());
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
  }
}

TEST(Checkpoint, OfAnotherDataSetIsRefused) {
  const std::string bytes = CheckpointWriter(&SlowCrc32c, kCodec).Write(Sample());
  Checkpoint read;
  const std::string other(32, 'o');
  const Status status = ReadCheckpoint(bytes, other, &SlowCrc32c, kCodec, &read);
  EXPECT_NE(status.message().find("another data set"), std::string::npos);
}

TEST(Checkpoint, IsSmall) {
  Checkpoint checkpoint = Sample();
  checkpoint.marks.shards = 10'000;
  checkpoint.marks.done.assign(1250, 0x55);
  for (uint32_t shard = 0; shard < 10'000; ++shard) checkpoint.marks.partly[shard] = 8000;
  EXPECT_LT(CheckpointWriter(&SlowCrc32c, kCodec).Write(checkpoint).size(), 64u << 10);
}

}  // namespace
}  // namespace tfquiver
