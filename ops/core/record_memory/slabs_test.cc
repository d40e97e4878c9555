#include "ops/core/record_memory/slabs.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <vector>

#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

constexpr size_t kBlockBytes = 64 << 10;
constexpr size_t kSlab = Slabs::kLeastSlabBytes;
constexpr size_t kBlocksOfSlab = kSlab / kBlockBytes;

std::vector<char*> Written(Slabs* slabs, size_t blocks) {
  std::vector<char*> written;
  for (size_t i = 0; i < blocks; ++i) {
    written.push_back(slabs->Get());
    std::memset(written.back(), static_cast<int>(i + 1), kBlockBytes);
  }
  return written;
}

// Whether the first page of what is mapped there has memory.
bool HasMemory(char* block) {
  unsigned char resident = 0;
  ::mincore(block, static_cast<size_t>(::sysconf(_SC_PAGESIZE)), &resident);
  return (resident & 1) != 0;
}

TEST(Slabs, BlocksDoNotOverlapAndAreUsedAgain) {
  Slabs slabs(kBlockBytes);
  const std::vector<char*> blocks = Written(&slabs, 3 * kBlocksOfSlab);
  EXPECT_EQ(slabs.mapped_bytes(), 3 * kSlab);
  for (size_t i = 0; i < blocks.size(); ++i) {
    for (size_t at : {size_t{0}, kBlockBytes - 1}) {
      EXPECT_EQ(blocks[i][at], static_cast<char>(i + 1));
    }
  }
  for (char* block : blocks) slabs.Put(block, true);
  EXPECT_EQ(slabs.kept_bytes(), 3 * kSlab);
  const std::set<char*> before(blocks.begin(), blocks.end());
  const std::vector<char*> again = Written(&slabs, blocks.size());
  EXPECT_TRUE(std::set<char*>(again.begin(), again.end()) == before);
  EXPECT_EQ(slabs.mapped_bytes(), 3 * kSlab);
  for (char* block : again) slabs.Put(block, true);
}

TEST(Slabs, WhatIsNotKeptHasNoMemoryAndIsUsedAgain) {
  Slabs slabs(kBlockBytes);
  const std::vector<char*> blocks = Written(&slabs, 3);
  slabs.Put(blocks[0], true);
  slabs.Put(blocks[1], false);
  slabs.Put(blocks[2], true);
  EXPECT_TRUE(HasMemory(blocks[0]));
  EXPECT_FALSE(HasMemory(blocks[1]));
  EXPECT_TRUE(HasMemory(blocks[2]));
  slabs.Shed();
  EXPECT_EQ(slabs.kept_bytes(), kBlockBytes);
  EXPECT_FALSE(HasMemory(blocks[2]));
  EXPECT_TRUE(slabs.Get() == blocks[0]);
  EXPECT_TRUE(slabs.Get() == blocks[2]);
  EXPECT_TRUE(slabs.Get() == blocks[1]);
  for (char* block : blocks) slabs.Put(block, true);
}

TEST(Slabs, BlocksOfAnySizeLieInTheirSlab) {
  for (size_t block_bytes : {size_t{28} << 10, size_t{1280} << 10, size_t{5} << 20}) {
    Slabs slabs(block_bytes);
    std::vector<char*> blocks;
    for (size_t i = 0; i < 100 && (i == 0 || slabs.mapped_bytes() < 4 * kSlab); ++i) {
      blocks.push_back(slabs.Get());
      std::memset(blocks.back(), static_cast<int>(i + 1), block_bytes);
    }
    for (size_t i = 0; i < blocks.size(); ++i) {
      EXPECT_EQ(blocks[i][0], static_cast<char>(i + 1));
      EXPECT_EQ(blocks[i][block_bytes - 1], static_cast<char>(i + 1));
      slabs.Put(blocks[i], i % 2 == 0);
    }
    slabs.Close();
    EXPECT_EQ(slabs.mapped_bytes(), 0u);
  }
}

TEST(Slabs, ABlockIsGivenMemoryAtOnceAndKeepsWhatItHas) {
  Slabs slabs(kBlockBytes);
  char* const block = slabs.Get();
  block[0] = 'x';
  Slabs::Populate(block, kBlockBytes - 1);
  EXPECT_EQ(block[0], 'x');
  EXPECT_EQ(block[kBlockBytes - 1], '\0');
  slabs.Put(block, true);
}

TEST(Slabs, ClosedItGivesBackWhatIsFreeAndWhatComes) {
  Slabs slabs(kBlockBytes);
  const std::vector<char*> blocks = Written(&slabs, 2 * kBlocksOfSlab);
  for (size_t i = 0; i < kBlocksOfSlab + 1; ++i) slabs.Put(blocks[i], true);
  slabs.Close();
  EXPECT_EQ(slabs.mapped_bytes(), kSlab);
  EXPECT_FALSE(HasMemory(blocks[kBlocksOfSlab]));
  EXPECT_TRUE(HasMemory(blocks[kBlocksOfSlab + 1]));
  for (size_t i = kBlocksOfSlab + 1; i < blocks.size(); ++i) {
    EXPECT_EQ(slabs.mapped_bytes(), kSlab);
    EXPECT_EQ(blocks[i][0], static_cast<char>(i + 1));
    slabs.Put(blocks[i], true);
  }
  EXPECT_EQ(slabs.mapped_bytes(), 0u);
}

TEST(Slabs, WhoeverWantsBlocksAfterCloseGetsThem) {
  Slabs slabs(kBlockBytes);
  char* const before = Written(&slabs, 1)[0];
  slabs.Close();
  char* const after = Written(&slabs, 1)[0];
  slabs.Put(before, true);
  slabs.Put(after, true);
  EXPECT_TRUE(Written(&slabs, 1)[0] == after);
  EXPECT_EQ(after[0], 1);
  slabs.Put(after, true);
  slabs.Close();
  EXPECT_EQ(slabs.mapped_bytes(), 0u);
}

}  // namespace
}  // namespace tfquiver
