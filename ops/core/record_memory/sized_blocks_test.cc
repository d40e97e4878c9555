#include "ops/core/record_memory/sized_blocks.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ops/core/shuffle_pool_and_order/random.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

constexpr size_t kMiB = 1 << 20;

// What a block for so many bytes has.
size_t BlockBytes(size_t size) {
  SizedBlocks blocks(SizedBlocks::kMostBytes);
  size_t block_bytes = 0;
  char* const block = blocks.Get(size, &block_bytes);
  blocks.Put(block, block_bytes);
  EXPECT_EQ(blocks.kept_bytes(), block_bytes);
  return block_bytes;
}

std::vector<char*> Got(SizedBlocks* blocks, size_t count, size_t size) {
  std::vector<char*> got;
  size_t block_bytes = 0;
  while (got.size() < count) got.push_back(blocks->Get(size, &block_bytes));
  EXPECT_EQ(block_bytes, size);
  return got;
}

TEST(SizedBlocks, ABlockIsALittleLargerThanWhatItIsFor) {
  std::vector<size_t> sizes = {SizedBlocks::kLeastBytes, SizedBlocks::kMostBytes, 110'001};
  for (size_t near = 8 << 10; near < SizedBlocks::kMostBytes; near = near * 5 / 4) {
    for (size_t size : {near - 1, near, near + 1}) sizes.push_back(size);
  }
  for (size_t size : sizes) {
    const size_t block_bytes = BlockBytes(size);
    EXPECT_GE(block_bytes, size);
    EXPECT_LE(block_bytes, size + std::max(size / 4, size_t{4095})) << size;
    EXPECT_EQ(BlockBytes(block_bytes), block_bytes);
  }
  EXPECT_EQ(BlockBytes(64 << 10), size_t{64} << 10);
}

TEST(SizedBlocks, FreshMemoryOfOneSizeIsTakenFromWhatIsKeptOfOthers) {
  SizedBlocks blocks(100 * kMiB, /*spare_bytes=*/3 * kMiB);
  for (char* block : Got(&blocks, 10, kMiB)) blocks.Put(block, kMiB);
  EXPECT_EQ(blocks.kept_bytes(), 10 * kMiB);
  const std::vector<char*> some = Got(&blocks, 6, kMiB / 2);
  EXPECT_EQ(blocks.kept_bytes(), 4 * kMiB);
  const std::vector<char*> more = Got(&blocks, 10, kMiB / 2);
  EXPECT_EQ(blocks.kept_bytes(), 3 * kMiB);
  for (const auto& small : {some, more}) {
    for (char* block : small) blocks.Put(block, kMiB / 2);
  }
  EXPECT_EQ(blocks.kept_bytes(), 11 * kMiB);
}

TEST(SizedBlocks, WhatIsALittleLargerIsUsedAgain) {
  SizedBlocks blocks(100 * kMiB);
  size_t block_bytes = 0;
  for (char* block : Got(&blocks, 1, kMiB)) blocks.Put(block, kMiB);
  char* const near = blocks.Get(kMiB * 2 / 3 + 1, &block_bytes);
  EXPECT_EQ(block_bytes, kMiB);
  EXPECT_EQ(blocks.kept_bytes(), 0u);
  blocks.Put(near, block_bytes);
  char* const far = blocks.Get(kMiB * 2 / 3 - 100, &block_bytes);
  EXPECT_EQ(block_bytes, kMiB * 3 / 4);
  EXPECT_EQ(blocks.kept_bytes(), kMiB);
  blocks.Put(far, block_bytes);
}

TEST(SizedBlocks, NoMoreIsKeptThanWasSaid) {
  SizedBlocks blocks(3 * kMiB);
  const std::vector<char*> one = Got(&blocks, 2, kMiB);
  const std::vector<char*> other = Got(&blocks, 2, 2 * kMiB);
  for (size_t i = 0; i < 2; ++i) {
    blocks.Put(one[i], kMiB);
    blocks.Put(other[i], 2 * kMiB);
  }
  EXPECT_EQ(blocks.kept_bytes(), 3 * kMiB);
  blocks.Close();
  EXPECT_EQ(blocks.kept_bytes(), 0u);
  EXPECT_EQ(blocks.mapped_bytes(), 0u);
}

// Sizes of all kinds in any order; now and then an epoch ends, with blocks that are still out.
TEST(SizedBlocks, AtRandomNothingOverlapsAndWhatIsKeptIsBounded) {
  struct Out {
    char* block;
    size_t size;
    size_t block_bytes;
    char stamp;
  };
  constexpr size_t kMostOut = 24 * kMiB, kSpare = 2 * kMiB, kMostKept = 16 * kMiB;
  Random random(7);
  SizedBlocks blocks(kMostKept, kSpare);
  std::vector<Out> out;
  size_t out_bytes = 0;
  size_t most_bytes = 0;  // that were out at one time
  const auto put = [&] {
    const size_t at = random.Below(out.size());
    const Out gone = out[at];
    out[at] = out.back();
    out.pop_back();
    for (size_t i : {size_t{0}, gone.size / 2, gone.size - 1}) {
      EXPECT_EQ(gone.block[i], gone.stamp);
    }
    out_bytes -= gone.block_bytes;
    blocks.Put(gone.block, gone.block_bytes);
  };
  for (int step = 0; step < 20'000; ++step) {
    // Small and large, in turns of some length, so that what is kept of some is of no use.
    const size_t most = step / 500 % 2 == 0 ? 40'000 : 3 * kMiB;
    const size_t size = SizedBlocks::kLeastBytes + random.Below(most - SizedBlocks::kLeastBytes);
    while (!out.empty() && (out_bytes + size > kMostOut || random.Below(3) == 0)) put();
    Out got{nullptr, size, 0, static_cast<char>(step)};
    got.block = blocks.Get(size, &got.block_bytes);
    EXPECT_LE(got.block_bytes, size + std::max(size / 2, size_t{4095}));
    for (size_t i : {size_t{0}, size / 2, size - 1}) got.block[i] = got.stamp;
    out.push_back(got);
    out_bytes += got.block_bytes;
    most_bytes = std::max(most_bytes, out_bytes);
    EXPECT_LE(blocks.kept_bytes(), kMostKept);
    EXPECT_LE(out_bytes + blocks.kept_bytes(), most_bytes + kSpare);
    if (random.Below(1000) == 0) {
      blocks.Close();
      EXPECT_EQ(blocks.kept_bytes(), 0u);
    }
  }
  blocks.Close();
  while (!out.empty()) put();
  EXPECT_EQ(blocks.mapped_bytes(), 0u);
}

}  // namespace
}  // namespace tfquiver
