#ifndef TFQUIVER_OPS_TESTING_TEST_RECORD_POOL_H_
#define TFQUIVER_OPS_TESTING_TEST_RECORD_POOL_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/shuffle_pool_and_order/record_pool.h"
#include "ops/testing/test_support.h"
#include "ops/testing/testing.h"

namespace tfquiver {

// A pool, of which the test is both feeder and taker.
class RecordPoolTest : public ::testing::Test {
 protected:
  void Make(uint64_t shuffle_bytes, uint64_t hold_back = 0, Marks restored = {}, Script script = {},
            std::chrono::milliseconds patience = std::chrono::milliseconds(5)) {
    PoolOptions options;
    options.script = std::move(script);
    options.seed = ++seed_;
    options.shuffle_bytes = shuffle_bytes;
    options.capacity_bytes = shuffle_bytes + 1000;
    options.hold_back = hold_back;
    options.patience = patience;
    options.longest_fill = std::max(options.longest_fill, patience);
    pool_ =
        std::make_unique<RecordPool>(options, std::move(restored), &blocks_, [this] { ++wakes_; });
  }

  // Shard `shard` with records "shard.0", "shard.1", ...
  uint64_t Add(uint32_t shard, int records, uint32_t skip = 0) {
    auto filled = std::make_unique<ShardRecords>(shard, 1000, &blocks_, &blobs_);
    uint64_t bytes = 0;
    for (int i = 0; i < records; ++i) {
      const std::string text = std::to_string(shard) + "." + std::to_string(i);
      bytes += text.size() + kRecordFramingBytes;
      if (i >= static_cast<int>(skip)) filled->AppendSmall(text.data(), text.size());
    }
    filled->CountSkipped(skip);
    pool_->Add(std::move(filled), bytes);
    return bytes;
  }

  std::vector<std::string> Draw(size_t want, bool* end = nullptr) {
    Drawn drawn;
    bool ended = false;
    const Status status = pool_->Draw(want, &drawn, end == nullptr ? &ended : end);
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<std::string> texts;
    for (const Record& record : drawn.records) texts.push_back(blobs_.Text(record));
    pool_->Release(&drawn);
    return texts;
  }

  uint64_t seed_ = 0;
  BlockPool blocks_{8};
  StringBlobs blobs_;
  std::atomic<int> wakes_{0};
  std::unique_ptr<RecordPool> pool_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TESTING_TEST_RECORD_POOL_H_
