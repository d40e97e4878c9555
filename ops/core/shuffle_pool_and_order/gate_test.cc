#include "ops/core/shuffle_pool_and_order/gate.h"

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "ops/core/shuffle_pool_and_order/record_pool.h"
#include "ops/testing/test_support.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

// A pool with a gate; shard s has the records "s.0", "s.1", ...
class GateTest : public ::testing::Test {
 protected:
  void Make(std::unique_ptr<Gate> gate, uint64_t shuffle_bytes = 1 << 20, Marks restored = {}) {
    PoolOptions options;
    options.shuffle_bytes = shuffle_bytes;
    options.capacity_bytes = shuffle_bytes + 1000;
    options.patience = std::chrono::milliseconds(1);
    pool_ = std::make_unique<RecordPool>(options, std::move(restored), &blocks_, [] {});
    pool_->SetOrder(std::move(gate), kDrawSeed, kOrderSeed, /*logged=*/true);
    ASSERT_TRUE(pool_->SetShards(100));
  }

  void Add(uint32_t shard, int records, const Place& place = {}) {
    uint32_t skip = 0;
    if (pool_->Consider(shard, 0, &skip, place) != RecordPool::Fate::kNew) return;
    auto filled = std::make_unique<ShardRecords>(shard, 1000, &blocks_, &blobs_);
    for (int i = static_cast<int>(skip); i < records; ++i) {
      const std::string text = std::to_string(shard) + "." + std::to_string(i);
      filled->AppendSmall(text.data(), text.size());
    }
    filled->CountSkipped(skip);
    pool_->Add(std::move(filled), 1000, place);
  }

  std::vector<std::string> Draw(size_t want) {
    Drawn drawn;
    bool end = false;
    const Status status = pool_->Draw(want, &drawn, &end, [this] { pool_->CancelDraw(); });
    code_ = status.code();
    std::vector<std::string> texts;
    for (const Record& record : drawn.records) texts.push_back(blobs_.Text(record));
    positions_.assign(drawn.positions.begin(), drawn.positions.end());
    pool_->Release(&drawn);
    return texts;
  }

  std::vector<std::string> DrawAll() {
    pool_->End();
    std::vector<std::string> all;
    while (true) {
      const std::vector<std::string> some = Draw(7);
      if (some.empty()) return all;
      all.insert(all.end(), some.begin(), some.end());
      all_positions_.insert(all_positions_.end(), positions_.begin(), positions_.end());
    }
  }

  std::vector<OrderEntry> Joined() {
    uint64_t drawn = 0;
    bool all = false;
    return pool_->TakeJoined(&drawn, &all);
  }

  static constexpr uint64_t kDrawSeed = 5;
  static constexpr uint64_t kOrderSeed = 6;
  BlockPool blocks_{8};
  StringBlobs blobs_;
  std::unique_ptr<RecordPool> pool_;
  Code code_ = Code::kOk;
  std::vector<int64_t> positions_;
  std::vector<int64_t> all_positions_;
};

TEST_F(GateTest, OneUnitAtATime) {
  Make(std::make_unique<UnitGate>());
  for (uint32_t shard = 0; shard < 12; ++shard) {
    Place place;
    place.unit = shard % 3 + 1;
    Add(shard, 5, place);
  }
  int changes = 0;
  int unit = -1;
  for (const std::string& text : DrawAll()) {
    const int now = std::stoi(text) % 3;
    changes += now != unit;
    unit = now;
  }
  EXPECT_EQ(changes, 3);
}

TEST_F(GateTest, ABlockWaitsUntilItIsWhole) {
  Make(std::make_unique<BlockGate>(true));
  Add(1, 4, PlaceInBlock(10, 0, 10, 2));
  EXPECT_TRUE(Draw(1).empty());
  EXPECT_EQ(code_, Code::kCancelled);
  EXPECT_FALSE(pool_->TakeOutbox().empty);
  Add(2, 6, PlaceInBlock(10, 4, 10, 2));
  EXPECT_EQ(Draw(10).size(), 10u);
  EXPECT_EQ(positions_, (std::vector<int64_t>{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
}

// However shards arrive, whoever has read a part of them: each record has its position.
TEST_F(GateTest, TheOrderOfABlockIsAFunctionOfItsPlace) {
  Make(std::make_unique<BlockGate>(true));
  Add(1, 4, PlaceInBlock(0, 0, 10, 2));
  Add(2, 6, PlaceInBlock(0, 4, 10, 2));
  Add(3, 3, PlaceInBlock(10, 0, 3, 1));
  const std::vector<std::string> whole = DrawAll();
  ASSERT_EQ(whole.size(), 13u);
  EXPECT_NE(whole, (std::vector<std::string>{"1.0", "1.1", "1.2", "1.3", "2.0", "2.1", "2.2", "2.3",
                                             "2.4", "2.5", "3.0", "3.1", "3.2"}));
  // The other way round.
  Make(std::make_unique<BlockGate>(true));
  Add(2, 6, PlaceInBlock(0, 4, 10, 2));
  Add(1, 4, PlaceInBlock(0, 0, 10, 2));
  Add(3, 3, PlaceInBlock(10, 0, 3, 1));
  EXPECT_EQ(DrawAll(), whole);
  // Without shard 1, which another reader has.
  Make(std::make_unique<BlockGate>(false));
  Add(2, 6, PlaceInBlock(0, 4, 10, 1));
  all_positions_.clear();
  const std::vector<std::string> part = DrawAll();
  ASSERT_EQ(part.size(), 6u);
  for (size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], whole[all_positions_[i]]);
}

TEST_F(GateTest, ARestoredBlockGoesOnWhereItWas) {
  Make(std::make_unique<BlockGate>(true));
  Add(1, 40, PlaceInBlock(0, 0, 100, 2));
  Add(2, 60, PlaceInBlock(0, 40, 100, 2));
  std::vector<std::string> before = Draw(33);
  const Marks marks = pool_->Snapshot();
  const std::vector<std::string> rest = DrawAll();
  Make(std::make_unique<BlockGate>(true), 1 << 20, marks);
  Add(2, 60, PlaceInBlock(0, 40, 100, 2));
  Add(1, 40, PlaceInBlock(0, 0, 100, 2));
  EXPECT_EQ(DrawAll(), rest);
}

TEST_F(GateTest, WhatComesDamagedKeepsItsTurnWhereThisReaderIsAlone) {
  for (bool alone : {true, false}) {
    Make(std::make_unique<BlockGate>(alone), 0);
    uint32_t skip = 0;
    EXPECT_EQ(pool_->Consider(1, 0, &skip, PlaceInBlock(0, 0, 1, 1)), RecordPool::Fate::kNew);
    Add(2, 1, PlaceInBlock(1, 0, 1, 1));
    EXPECT_EQ(Draw(1).empty(), alone);
    Add(1, 1, PlaceInBlock(0, 0, 1, 1));
    EXPECT_EQ(DrawAll().front(), "1.0");
  }
}

TEST_F(GateTest, ABlockThatIsNotWholeIsGivenUpWithThoseAfterIt) {
  Make(std::make_unique<BlockGate>(false));
  Add(1, 4, PlaceInBlock(0, 0, 4, 1));
  Add(2, 4, PlaceInBlock(4, 0, 8, 2));
  Add(4, 4, PlaceInBlock(12, 0, 4, 1));
  EXPECT_EQ(Draw(2).size(), 2u);
  EXPECT_EQ(pool_->Held(), std::vector<uint32_t>{1});
  EXPECT_TRUE(pool_->Lacks(2));
  Add(2, 4, PlaceInBlock(4, 0, 8, 2));
  Add(3, 4, PlaceInBlock(4, 4, 8, 2));
  Add(4, 4, PlaceInBlock(12, 0, 4, 1));
  EXPECT_EQ(DrawAll().size(), 14u);
}

TEST_F(GateTest, BlocksChangeHands) {
  Make(std::make_unique<BlockGate>(false));
  Add(1, 4, PlaceInBlock(0, 0, 8, 2));
  pool_->Drop(1);  // another reader has the block now
  Add(3, 4, PlaceInBlock(8, 0, 8, 2));
  Add(4, 4, PlaceInBlock(8, 4, 8, 2));
  EXPECT_EQ(Draw(3).size(), 3u);
  pool_->Drop(3);
  std::vector<std::string> rest = DrawAll();
  for (const std::string& text : rest) EXPECT_EQ(text[0], '4');
}

TEST_F(GateTest, ShardsReadBeforeCountAsArrived) {
  Marks marks;
  marks.shards = 100;
  marks.done.resize(13);
  marks.done[0] = 2;  // shard 1
  Make(std::make_unique<BlockGate>(true), 1 << 20, marks);
  Add(1, 4, PlaceInBlock(0, 0, 8, 2));
  Add(2, 4, PlaceInBlock(0, 4, 8, 2));
  EXPECT_EQ(Draw(4).size(), 4u);
}

TEST_F(GateTest, ShardsThatDoNotFitTheirBlockAreAnError) {
  Make(std::make_unique<BlockGate>(true));
  Add(1, 4, PlaceInBlock(0, 0, 8, 2));
  Add(2, 4, PlaceInBlock(0, 2, 8, 2));
  EXPECT_TRUE(Draw(1).empty());
  EXPECT_EQ(code_, Code::kAborted);
}

TEST_F(GateTest, BlocksWithoutShuffle) {
  Make(std::make_unique<BlockGate>(true), 0);
  Add(7, 3, PlaceInBlock(3, 0, 3, 1));
  Add(1, 2, PlaceInBlock(6, 0, 2, 1));
  EXPECT_EQ(DrawAll(), (std::vector<std::string>{"7.0", "7.1", "7.2", "1.0", "1.1"}));
}

// One run; then its log, with shards that arrive in another order and at other times.
TEST_F(GateTest, ReplaysWhatWasServed) {
  for (uint64_t shuffle_bytes : {uint64_t{0}, uint64_t{1} << 20}) {
    Make(nullptr, shuffle_bytes);
    std::vector<std::string> served;
    const auto draw = [this, &served](size_t n) {
      for (auto& text : Draw(n)) served.push_back(std::move(text));
    };
    Add(3, 20);
    Add(1, 20);
    draw(7);
    Add(2, 20);
    draw(20);
    pool_->Drop(1);
    draw(5);
    Add(9, 4);
    Add(1, 20);
    for (auto& text : DrawAll()) served.push_back(std::move(text));
    const std::vector<OrderEntry> log = Joined();
    ASSERT_EQ(log.size(), 6u);
    EXPECT_TRUE(log[3].leaves);

    Make(std::make_unique<LogGate>(log), shuffle_bytes);
    std::vector<std::string> replayed;
    Add(9, 4);
    Add(1, 20);
    EXPECT_TRUE(Draw(1).empty());  // shard 3 comes first
    EXPECT_EQ(code_, Code::kCancelled);
    Add(3, 20);
    for (auto& text : Draw(7)) replayed.push_back(std::move(text));
    EXPECT_TRUE(Draw(1).empty());  // now shard 2 has to come
    Add(2, 20);
    pool_->Drop(3);  // a reader that is alone keeps what it has
    for (auto& text : DrawAll()) replayed.push_back(std::move(text));
    EXPECT_EQ(replayed, served);
    const std::vector<OrderEntry> again = Joined();
    ASSERT_EQ(again.size(), log.size());
    for (size_t i = 0; i < log.size(); ++i) EXPECT_EQ(again[i].drawn, log[i].drawn);
  }
}

TEST_F(GateTest, AfterTheEndOfATornLogShardsJoinAsTheyCome) {
  Make(std::make_unique<LogGate>(std::vector<OrderEntry>{{5, 0, false}, {6, 3, false}}));
  Add(7, 5);
  Add(6, 5);
  Add(5, 5);
  for (const std::string& text : Draw(3)) EXPECT_EQ(text[0], '5');
  EXPECT_EQ(DrawAll().size(), 12u);
}

TEST_F(GateTest, TheCreditForTheShardThatMustComeIsNotWithheld) {
  Make(std::make_unique<LogGate>(std::vector<OrderEntry>{{5, 0, false}, {6, 1, false}}));
  Add(5, 5);
  pool_->TakeOutbox();
  EXPECT_EQ(Draw(1).size(), 1u);
  EXPECT_TRUE(Draw(1).empty());
  EXPECT_GT(pool_->TakeOutbox().credit_bytes, 0u);
}

}  // namespace
}  // namespace tfquiver
