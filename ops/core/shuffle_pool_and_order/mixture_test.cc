#include "ops/core/shuffle_pool_and_order/mixture.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "ops/testing/test_support.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

constexpr uint64_t kDrawSeed = 5;
constexpr uint64_t kOrderSeed = 6;

// Shard s has the records "s.0", "s.1", ...
class MixtureTest : public ::testing::Test {
 protected:
  void Make(bool shuffled, std::unique_ptr<Gate> gate = nullptr, const Script& script = {}) {
    mixture_ = std::make_unique<Mixture>(shuffled, kDrawSeed, script);
    mixture_->SetOrder(std::move(gate), kDrawSeed, kOrderSeed, /*logged=*/true);
  }

  std::unique_ptr<ShardRecords> Shard(uint32_t shard, uint32_t records, uint32_t skip = 0) {
    auto filled = std::make_unique<ShardRecords>(shard, 1000, &blocks_, &blobs_);
    for (uint32_t i = skip; i < records; ++i) {
      const std::string text = std::to_string(shard) + "." + std::to_string(i);
      filled->AppendSmall(text.data(), text.size());
    }
    filled->CountSkipped(skip);
    return filled;
  }

  void Add(uint32_t shard, uint32_t records, const Place& place = {}, uint32_t skip = 0) {
    mixture_->Add(Shard(shard, records, skip), place);
  }

  // What can be had without another shard, up to `most`.
  std::vector<std::string> Take(uint64_t most = ~uint64_t{0}) {
    Drawn drawn;
    std::vector<std::string> texts;
    spent_.clear();
    positions_.clear();
    while (texts.size() < most) {
      mixture_->Admit();
      const Mixture::Taken taken = mixture_->Take(most - texts.size(), &drawn);
      uint64_t raw_bytes = 0;
      for (const Record& record : drawn.records) {
        texts.push_back(blobs_.Text(record));
        raw_bytes += texts.back().size() + kRecordFramingBytes;
      }
      EXPECT_EQ(taken.raw_bytes, raw_bytes);
      spent_.insert(spent_.end(), taken.spent.begin(), taken.spent.end());
      positions_.insert(positions_.end(), drawn.positions.begin(), drawn.positions.end());
      const bool none = drawn.records.empty();
      drawn.records.clear();
      drawn.positions.clear();
      for (auto& block : drawn.retired) blocks_.Put(std::move(block));
      drawn.retired.clear();
      if (none) break;
    }
    return texts;
  }

  BlockPool blocks_{8};
  StringBlobs blobs_;
  std::unique_ptr<Mixture> mixture_;
  std::vector<uint32_t> spent_;
  std::vector<int64_t> positions_;
};

using Texts = std::vector<std::string>;

TEST_F(MixtureTest, UnshuffledItIsAQueueOfShards) {
  Make(/*shuffled=*/false);
  Add(7, 2);
  Add(1, 3);
  EXPECT_EQ(Take(3), (Texts{"7.0", "7.1", "1.0"}));
  EXPECT_EQ(spent_, std::vector<uint32_t>{7});
  EXPECT_FALSE(mixture_->Has(7));
  Add(0, 1);
  EXPECT_EQ(Take(), (Texts{"1.1", "1.2", "0.0"}));
  EXPECT_TRUE(mixture_->empty());
  EXPECT_EQ(mixture_->drawn(), 6u);
}

// A log that is replayed is nothing but seeds and joins: what they give must never change.
TEST_F(MixtureTest, TheOrderOfASeedIsWhatItHasAlwaysBeen) {
  Make(/*shuffled=*/true);
  for (uint32_t shard : {2, 0, 1}) Add(shard, 3);
  EXPECT_EQ(Take(5), (Texts{"0.0", "1.0", "2.0", "2.1", "0.1"}));
  Add(3, 2);
  EXPECT_EQ(Take(), (Texts{"2.2", "3.0", "3.1", "1.1", "1.2", "0.2"}));
  EXPECT_EQ(spent_, (std::vector<uint32_t>{2, 3, 1, 0}));
}

// Each shard in its own order, each record once, every shard with as many chances as records.
TEST_F(MixtureTest, ShuffledEveryRecordComesOnceAndShardsMix) {
  Make(/*shuffled=*/true);
  for (uint32_t shard = 0; shard < 10; ++shard) Add(shard, 100);
  std::map<uint32_t, uint32_t> next;
  std::map<uint32_t, uint32_t> in_first_half;
  int taken = 0;
  for (const std::string& text : Take()) {
    const auto shard = static_cast<uint32_t>(std::stoul(text));
    EXPECT_EQ(text, std::to_string(shard) + "." + std::to_string(next[shard]++));
    in_first_half[shard] += taken++ < 500;
  }
  EXPECT_EQ(taken, 1000);
  for (const auto& [shard, count] : in_first_half) EXPECT_NEAR(count, 50, 20) << shard;
}

TEST_F(MixtureTest, WhatIsDroppedDoesNotComeAndMayComeAgain) {
  for (bool shuffled : {false, true}) {
    Make(shuffled);
    Add(0, 20);
    Add(1, 20);
    const Texts before = Take(10);
    std::unique_ptr<ShardRecords> dropped = mixture_->Drop(0);
    ASSERT_NE(dropped, nullptr);
    const auto of_0 = static_cast<uint32_t>(std::count_if(
        before.begin(), before.end(), [](const auto& text) { return text[0] == '0'; }));
    EXPECT_EQ(dropped->taken(), of_0);
    EXPECT_EQ(mixture_->left(), 20 - (10 - of_0));
    EXPECT_EQ(mixture_->Drop(0), nullptr);
    EXPECT_EQ(mixture_->Drop(9), nullptr);
    Add(0, 20, {}, of_0);
    std::set<std::string> all(before.begin(), before.end());
    for (const std::string& text : Take()) EXPECT_TRUE(all.insert(text).second) << text;
    EXPECT_EQ(all.size(), 40u);
  }
}

TEST_F(MixtureTest, AScriptComesFirstAndWaitsForItsShards) {
  for (bool shuffled : {false, true}) {
    Script script;
    script.wanted = {4, 2};
    script.draws = {4, 2, 2, 4, 2};
    Make(shuffled, nullptr, script);
    EXPECT_TRUE(mixture_->Shut());
    Add(9, 2);
    Add(4, 3);
    EXPECT_FALSE(mixture_->Shut());
    EXPECT_FALSE(mixture_->fills());
    EXPECT_EQ(Take(), Texts{"4.0"});
    EXPECT_TRUE(mixture_->Shut());
    EXPECT_EQ(mixture_->left(), 4u);
    // Nobody may take a shard away of which the script wants more.
    EXPECT_EQ(mixture_->Drop(9), nullptr);
    Script rest;
    mixture_->RestOfScript(&rest);
    EXPECT_EQ(rest.wanted, (std::vector<uint32_t>{4, 2}));
    EXPECT_EQ(rest.draws, (std::vector<uint32_t>{2, 2, 4, 2}));
    Add(2, 4);
    EXPECT_EQ(Take(4), (Texts{"2.0", "2.1", "4.1", "2.2"}));
    EXPECT_TRUE(mixture_->fills());
    Texts free = Take();
    std::sort(free.begin(), free.end());
    EXPECT_EQ(free, (Texts{"2.3", "4.2", "9.0", "9.1"}));
  }
}

TEST_F(MixtureTest, AScriptThatWantsMoreThanThereIsIsAnError) {
  Script script;
  script.wanted = {1};
  script.draws = {1, 1, 1};
  Make(true, nullptr, script);
  Add(1, 2);
  EXPECT_EQ(mixture_->error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(Take().empty());
}

// The end shows that others have read it. What waited at the gate behind the script comes then.
TEST_F(MixtureTest, AtTheEndWhatAScriptWantsAndNobodySendsIsPassedOver) {
  Script script;
  script.wanted = {1};
  script.draws = {1, 1};
  Make(true, std::make_unique<UnitGate>(), script);
  Place unit;
  unit.unit = 3;
  Add(0, 2, unit);
  EXPECT_TRUE(Take().empty());
  EXPECT_TRUE(mixture_->Shut());
  mixture_->Close();
  EXPECT_EQ(Take().size(), 2u);
  EXPECT_TRUE(mixture_->empty());
}

TEST_F(MixtureTest, WaitsAtTheGate) {
  Make(true, std::make_unique<BlockGate>(/*alone=*/false));
  Add(1, 4, PlaceInBlock(100, 0, 10, 2), /*skip=*/1);
  EXPECT_TRUE(mixture_->Has(1));
  EXPECT_FALSE(mixture_->Admit());
  EXPECT_EQ(mixture_->left(), 0u);
  EXPECT_TRUE(mixture_->Starved());
  EXPECT_FALSE(mixture_->empty());
  EXPECT_FALSE(mixture_->fills());
  EXPECT_EQ(mixture_->Shards(), std::vector<uint32_t>{1});
  Marks marks;
  mixture_->Mark(&marks);
  EXPECT_EQ(marks.partly, (std::map<uint32_t, uint32_t>{{1, 1}}));
  Add(2, 6, PlaceInBlock(100, 4, 10, 2));
  EXPECT_TRUE(mixture_->Admit());
  EXPECT_EQ(Take().size(), 9u);
  // The place of the record that was read before stays empty.
  EXPECT_EQ(positions_.size(), 9u);
  EXPECT_GE(positions_.front(), 100);
  EXPECT_TRUE(std::is_sorted(positions_.begin(), positions_.end()));
}

TEST_F(MixtureTest, ABlocksOrderDoesNotDependOnWhoReadPartOfIt) {
  std::map<int64_t, std::string> whole;
  Make(true, std::make_unique<BlockGate>(true));
  Add(1, 4, PlaceInBlock(50, 0, 10, 2));
  Add(2, 6, PlaceInBlock(50, 4, 10, 2));
  Texts texts = Take();
  ASSERT_EQ(positions_.size(), 10u);
  for (size_t i = 0; i < 10; ++i) whole[positions_[i]] = texts[i];
  for (uint32_t skip = 0; skip < 4; ++skip) {
    Make(true, std::make_unique<BlockGate>(true));
    Add(2, 6, PlaceInBlock(50, 4, 10, 2), 5);
    Add(1, 4, PlaceInBlock(50, 0, 10, 2), skip);
    texts = Take();
    ASSERT_EQ(texts.size(), 5 - skip);
    for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(whole.at(positions_[i]), texts[i]);
  }
}

TEST_F(MixtureTest, ShardsThatDoNotFitTheirBlockAreAnError) {
  Make(true, std::make_unique<BlockGate>(true));
  Add(1, 6, PlaceInBlock(0, 0, 10, 2));
  Add(2, 6, PlaceInBlock(0, 4, 10, 2));
  EXPECT_TRUE(Take().empty());
  EXPECT_EQ(mixture_->error().code(), Code::kAborted);
}

// A session has blocks, or it has none. A node that sends both breaks an order, and nothing else.
TEST_F(MixtureTest, AShardWithoutABlockAmongBlocksIsTakenInItsTurn) {
  Make(true, std::make_unique<BlockGate>(false));
  Add(1, 4, PlaceInBlock(0, 0, 4, 1));
  EXPECT_EQ(Take().size(), 4u);
  Place none;
  none.position = 4;
  Add(2, 3, none);
  mixture_->Close();
  EXPECT_EQ(Take().size(), 3u);
  EXPECT_TRUE(positions_.empty());
  EXPECT_TRUE(mixture_->empty());
}

// What one mixture did, another one does again that is told of the joins only.
TEST_F(MixtureTest, ALogOfJoinsGivesTheSameOrder) {
  for (bool shuffled : {false, true}) {
    Make(shuffled);
    Random random(3);
    Texts served;
    for (uint32_t shard = 0; shard < 40; ++shard) {
      Add(shard, 1 + static_cast<uint32_t>(random.Below(30)));
      for (const std::string& text : Take(random.Below(25))) served.push_back(text);
    }
    for (const std::string& text : Take()) served.push_back(text);
    Make(shuffled, std::make_unique<LogGate>(mixture_->TakeJoined()));
    Random again(3);
    std::vector<uint32_t> sizes;
    for (uint32_t shard = 0; shard < 40; ++shard) {
      sizes.push_back(1 + static_cast<uint32_t>(again.Below(30)));
      again.Below(25);
    }
    for (uint32_t shard = 40; shard-- > 0;) Add(shard, sizes[shard]);
    EXPECT_EQ(Take(), served);
  }
}

}  // namespace
}  // namespace tfquiver
