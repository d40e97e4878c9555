#include "ops/core/shards/block_pool.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ops/core/shards/shard_records.h"
#include "ops/core/test_support.h"
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
  EXPECT_TRUE(pool.Get(kBlock).data != data);
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
