#include "ops/core/element_client_and_server/shared_memory.h"

#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "ops/core/element_client_and_server/element_client.h"
#include "ops/core/element_client_and_server/element_server.h"
#include "ops/testing/element_worker.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

constexpr size_t kSize = 1 << 20;

size_t PageBytes(const ElementMemory& memory) {
  struct stat is{};
  EXPECT_EQ(::fstat(memory.fd(), &is), 0);
  return static_cast<size_t>(is.st_blocks) * 512;
}

// So many at a time, written and released.
std::vector<MemoryPool::Taken> Peak(MemoryPool* pool, int count, size_t size = kSize) {
  std::vector<MemoryPool::Taken> taken;
  for (int i = 0; i < count; ++i) {
    taken.push_back(pool->Take(size));
    EXPECT_TRUE(taken.back().memory != nullptr);
    if (taken.back().memory == nullptr) return {};
    std::memset(taken.back().memory->data(), 'x', size);
  }
  for (const auto& one : taken) EXPECT_TRUE(pool->Release(one.id));
  return taken;
}

TEST(MemoryPoolTest, WhatAPeakHasLeftKeepsNoPages) {
  MemoryPool pool(64 * kSize);
  const auto peak = Peak(&pool, 8);
  for (const auto& one : peak) EXPECT_GE(PageBytes(*one.memory), kSize);
  for (int i = 0; i < 1000; ++i) Peak(&pool, 2, 4096);
  size_t bytes = 0;
  for (const auto& one : peak) bytes += PageBytes(*one.memory);
  EXPECT_LE(bytes, 2 * peak[0].memory->size());
}

TEST(MemoryPoolTest, WhatIsWrittenAgainAndAgainKeepsItsPages) {
  MemoryPool pool(64 * kSize);
  for (int i = 0; i < 1000; ++i) {
    for (const auto& one : Peak(&pool, 2)) {
      EXPECT_FALSE(i > 0 && one.is_new);
      EXPECT_GE(PageBytes(*one.memory), kSize);
    }
  }
}

TEST(MemoryPoolTest, WhatIsTakenKeepsItsPagesAndWhatIsNotDoesNotWhereItRests) {
  MemoryPool pool(64 * kSize);
  const auto peak = Peak(&pool, 3);
  const auto taken = pool.Take(kSize);
  std::memset(taken.memory->data(), 'y', kSize);
  pool.Rest();
  size_t bytes = 0;
  for (const auto& one : peak) bytes += PageBytes(*one.memory);
  EXPECT_EQ(bytes, PageBytes(*taken.memory));
  EXPECT_EQ(std::string_view(taken.memory->data(), kSize).find_first_not_of('y'),
            std::string_view::npos);
}

TEST(MemoryPoolTest, SmallOnesMakeWayForALargeOne) {
  MemoryPool pool(8 * kSize);
  Peak(&pool, 5);
  const auto large = pool.Take(4 * kSize);
  EXPECT_TRUE(large.memory != nullptr && large.is_new);
}

// Of a connection whose trainer maps whatever it was ever given.
TEST(MemoryPoolTest, NoMoreAreEverMadeThanATrainerMaps) {
  MemoryPool pool(8 * kSize);
  uint32_t last = 0;
  for (int i = 0; i < 2000; ++i) {
    const auto taken = pool.Take(i % 2 == 0 ? 7 * kSize / 2 : kSize);
    if (taken.memory == nullptr) continue;
    last = std::max(last, taken.id);
    pool.Release(taken.id);
    const auto other = pool.Take(5 * kSize);
    if (other.memory == nullptr) continue;
    last = std::max(last, other.id);
    pool.Release(other.id);
  }
  EXPECT_LE(last, 512u);
}

// Of this process, in memory files that are mapped.
size_t SharedResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssShmem:", 0) == 0) return std::stoull(line.substr(9)) << 10;
  }
  return 0;
}

TEST(MemoryPoolTest, WhoHasKeptMuchAndAsksForNoMoreHoldsNoMemoryOfItsWorker) {
  constexpr size_t kKept = 40;
  KnownElements source(1000, kSize);
  ServerLimits limits;
  limits.rests_after = std::chrono::milliseconds(20);
  const auto server = Serve(&source, {}, 0, RandomBytes(kWorkerIdBytes), limits);
  ElementClient client(Local(*server), {}, kCrc32c);
  std::vector<PayloadRef> kept(kKept);
  Element element;
  const size_t before = SharedResidentBytes();
  for (PayloadRef& one : kept) {
    ASSERT_TRUE(client.Next("\x08\x01", Question(), &element, &one).ok());
  }
  ASSERT_GE(SharedResidentBytes(), before + kKept * kSize);
  kept.clear();
  PayloadRef last;
  ASSERT_TRUE(client.Next("\x08\x01", Question(), &element, &last).ok());
  const auto give_up = Clock::now() + seconds(20);
  while (SharedResidentBytes() > before + 6 * kSize && Clock::now() < give_up) {
    std::this_thread::yield();
  }
  EXPECT_LE(SharedResidentBytes(), before + 6 * kSize);
  EXPECT_EQ(last->bytes().find_first_not_of(last->bytes()[0]), std::string_view::npos);
}

}  // namespace
}  // namespace tfquiver
