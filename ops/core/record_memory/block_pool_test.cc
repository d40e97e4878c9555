#include "ops/core/record_memory/block_pool.h"

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ops/core/record_memory/shard_records.h"
#include "ops/core/shuffle_pool_and_order/random.h"
#include "ops/testing/test_support.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

constexpr size_t kBlock = BlockPool::kBlockBytes;

TEST(BlockPool, ABlockThatWasPutBackIsUsedAgain) {
  BlockPool pool(1);
  BlockPool::Block block = pool.Get(kBlock);
  const char* const data = block.data;
  pool.Put(std::move(block));
  EXPECT_TRUE(pool.Get(kBlock).data == data);
  EXPECT_EQ(pool.Get(100).size, 100u);
}

TEST(BlockPool, WithoutAFactoryNothingIsShared) {
  BlockPool pool(1);
  BlockPool::Block block = pool.Get(kBlock);
  pool.Share(&block);
  EXPECT_TRUE(block.owner == nullptr);
}

TEST(BlockPool, ASharedBlockComesBackWhenTheLastHasLetGo) {
  StringBlobs blobs;
  BlockPool pool(1, &blobs);
  BlockPool::Block block = pool.Get(kBlock);
  const char* const data = block.data;
  pool.Share(&block);
  void* const owner = block.owner.get();
  ASSERT_TRUE(owner != nullptr);
  EXPECT_TRUE(block.data == data);
  StringBlobs::Hold(owner);
  EXPECT_EQ(pool.pinned_bytes(), 0u);
  pool.Put(std::move(block));
  EXPECT_EQ(pool.pinned_bytes(), kBlock);
  BlockPool::Block other = pool.Get(kBlock);
  EXPECT_TRUE(other.data != data);
  blobs.Unshare(owner);
  EXPECT_EQ(pool.pinned_bytes(), 0u);
  EXPECT_TRUE(pool.Get(kBlock).data == data);
}

TEST(BlockPool, WhatIsPinnedIsBounded) {
  StringBlobs blobs;
  BlockPool pool(4, &blobs, 2 * kBlock);
  std::vector<void*> held;
  for (int i = 0; i < 5; ++i) {
    BlockPool::Block block = pool.Get(kBlock);
    pool.Share(&block);
    if (block.owner == nullptr) continue;
    held.push_back(block.owner.get());
    StringBlobs::Hold(held.back());
    pool.Put(std::move(block));
  }
  EXPECT_EQ(held.size(), 2u);
  EXPECT_EQ(pool.pinned_bytes(), 2 * kBlock);
  for (void* owner : held) blobs.Unshare(owner);
  BlockPool::Block block = pool.Get(kBlock);
  pool.Share(&block);
  EXPECT_TRUE(block.owner != nullptr);
}

TEST(BlockPool, OneRecordsBlockIsSharedHoweverMuchIsPinned) {
  StringBlobs blobs;
  BlockPool pool(4, &blobs, /*most_pinned_bytes=*/0);
  BlockPool::Block block = pool.Get(110'001);
  pool.Share(&block);
  EXPECT_TRUE(block.owner == nullptr);
  block = pool.GetAlone(110'001);
  pool.Share(&block);
  void* const owner = block.owner.get();
  ASSERT_TRUE(owner != nullptr);
  StringBlobs::Hold(owner);
  pool.Put(std::move(block));
  EXPECT_EQ(pool.pinned_bytes(), size_t{112} << 10);
  blobs.Unshare(owner);
  EXPECT_EQ(pool.pinned_bytes(), 0u);
}

TEST(BlockPool, WhenNoMoreAreToComeWhatIsFreeAndWhatComesBackIsTheKernels) {
  StringBlobs blobs;
  BlockPool pool(1000, &blobs);
  BlockPool::Block held = pool.Get(kBlock);
  BlockPool::Block shared = pool.Get(kBlock);
  pool.Share(&shared);
  void* const owner = shared.owner.get();
  StringBlobs::Hold(owner);
  pool.Put(std::move(shared));
  std::vector<BlockPool::Block> free(100);
  for (BlockPool::Block& block : free) block = pool.Get(kBlock);
  free.clear();
  EXPECT_TRUE(pool.mapped_bytes() >= 102 * kBlock);
  pool.Close();
  EXPECT_EQ(pool.mapped_bytes(), Slabs::kLeastSlabBytes);
  pool.Put(std::move(held));
  EXPECT_EQ(pool.mapped_bytes(), Slabs::kLeastSlabBytes);
  blobs.Unshare(owner);
  EXPECT_EQ(pool.mapped_bytes(), 0u);
}

TEST(BlockPool, LargeRecordsGiveBackTheirMemoryOneByOne) {
  StringBlobs blobs;
  BlockPool pool(1000, &blobs);
  ShardRecords shard(0, 3 << 20, &pool, &blobs);
  const std::vector<size_t> sizes = {2 << 20, 600'000, 110'000, 0, 20};
  for (size_t size : sizes) std::memset(shard.AppendLarge(size), 'x', size);
  pool.Close();
  size_t mapped = pool.mapped_bytes();
  for (size_t size : sizes) {
    std::vector<BlockPool::Block> retired;
    const Record record = shard.Take(&retired);
    EXPECT_TRUE(record.alone && record.blob == nullptr && record.owner != nullptr);
    EXPECT_EQ(std::string(record.data), std::string(size, 'x'));
    StringBlobs::Hold(record.owner);
    for (auto& block : retired) pool.Put(std::move(block));
    EXPECT_EQ(pool.mapped_bytes(), mapped);
    EXPECT_GE(pool.pinned_bytes(), size + 1);
    EXPECT_LE(pool.pinned_bytes(), size * 5 / 4 + 1);
    blobs.Unshare(record.owner);
    EXPECT_EQ(pool.pinned_bytes(), 0u);
    EXPECT_EQ(pool.mapped_bytes() < mapped, size > 100'000);
    mapped = pool.mapped_bytes();
  }
  EXPECT_EQ(mapped, 0u);
}

// One thread reads, others let go: of strings, and of batches that have the blocks themselves.
TEST(BlockPool, LargeRecordsLetGoOnOtherThreads) {
  StringBlobs blobs;
  auto pool = std::make_unique<BlockPool>(32, &blobs);
  struct Kept {
    BlockPool::Block block;
    void* owner = nullptr;
    const char* data = nullptr;
    size_t size = 0;
    char stamp = 0;
  };
  std::mutex mu;
  std::condition_variable changed;
  std::vector<Kept> kept;
  bool over = false;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (true) {
        Kept mine;
        {
          std::unique_lock<std::mutex> lock(mu);
          changed.wait(lock, [&] { return over || !kept.empty(); });
          if (kept.empty()) return;
          mine = std::move(kept.back());
          kept.pop_back();
        }
        wrong += mine.data[0] != mine.stamp || mine.data[mine.size - 1] != mine.stamp;
        wrong += mine.data[mine.size] != '\0';
        if (mine.owner != nullptr) blobs.Unshare(mine.owner);
      }
    });
  }
  Random random(3);
  for (uint32_t number = 0; number < 100; ++number) {
    ShardRecords shard(number, 2 << 20, pool.get(), &blobs);
    for (int i = 0; i < 10; ++i) {
      const size_t size = 1 + random.Below(i < 8 ? 60'000 : 600'000);
      std::memset(shard.AppendLarge(size), 'a' + i, size);
    }
    for (int i = 0; i < 9; ++i) {  // one is never taken
      std::vector<BlockPool::Block> retired;
      const Record record = shard.Take(&retired);
      Kept one;
      one.data = record.data;
      one.size = record.size;
      one.stamp = static_cast<char>('a' + i);
      if (i % 2 == 0) {
        StringBlobs::Hold(record.owner);
        one.owner = record.owner;
      } else {
        one.block = std::move(retired[0]);
      }
      for (auto& block : retired) pool->Put(std::move(block));
      std::lock_guard<std::mutex> lock(mu);
      kept.push_back(std::move(one));
      changed.notify_one();
    }
    if (number % 40 == 39) pool->Close();
  }
  pool.reset();
  {
    std::lock_guard<std::mutex> lock(mu);
    over = true;
    changed.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(BlockPool, StringsOutliveThePoolAndLetGoOnOtherThreads) {
  StringBlobs blobs;
  auto pool = std::make_unique<BlockPool>(8, &blobs);
  auto shard = std::make_unique<ShardRecords>(0, 1 << 20, pool.get(), &blobs);
  std::vector<std::string> texts;
  for (int i = 0; i < 3000; ++i) {
    texts.push_back(std::to_string(i) + std::string(100, 'x'));
    shard->AppendSmall(texts.back().data(), texts.back().size());
  }
  struct Held {
    void* owner;
    const char* data;
    size_t size;
  };
  std::vector<Held> held;
  std::vector<BlockPool::Block> retired;
  while (shard->left() > 0) {
    const Record record = shard->Take(&retired);
    ASSERT_TRUE(record.owner != nullptr);
    EXPECT_EQ(record.data[record.size], '\0');
    StringBlobs::Hold(record.owner);
    held.push_back(Held{record.owner, record.data, record.size});
    for (auto& block : retired) pool->Put(std::move(block));
    retired.clear();
  }
  shard.reset();
  pool.reset();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (size_t part = 0; part < 3; ++part) {
    threads.emplace_back([&, part] {
      for (size_t i = part; i < held.size(); i += 3) {
        wrong += std::string(held[i].data, held[i].size) != texts[i];
        blobs.Unshare(held[i].owner);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace tfquiver
