#include "ops/core/reader_and_its_conversation_with_the_node/shard_check.h"

#include <functional>
#include <string>
#include <vector>

#include "ops/core/shuffle_pool_and_order/random.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

Opened Session() {
  Opened opened;
  opened.shards = 20;
  opened.records = 1000;
  return opened;
}

ShardFrame Shard() {
  ShardFrame shard;
  shard.shard = 19;
  shard.length_bytes = 5000;
  shard.records = 50;
  return shard;
}

ShardFrame ShardOfBlock() {
  ShardFrame shard = Shard();
  shard.place.position = 800;
  shard.place.offset = 150;
  shard.place.block_records = 200;
  shard.place.block_shards = 4;
  return shard;
}

SessionWish Deterministic() {
  SessionWish wish;
  wish.order = Order::kDeterministic;
  wish.block_bytes = 8000;
  return wish;
}

TEST(Validate, TakesWhatANodeMaySend) {
  EXPECT_TRUE(Validate(Shard(), SessionWish{}, Session()).ok());
  EXPECT_TRUE(Validate(ShardOfBlock(), Deterministic(), Session()).ok());
  SessionWish files;
  files.order = Order::kFiles;
  EXPECT_TRUE(Validate(ShardOfBlock(), files, Session()).ok());
  EXPECT_FALSE(Validate(Shard(), files, Session()).ok());
  ShardFrame of_unit = Shard();
  of_unit.place.unit = 3;
  EXPECT_TRUE(Validate(of_unit, SessionWish{}, Session()).ok());
  ShardFrame picked = Shard();
  picked.picks = std::string(7 * 64, 'x');
  EXPECT_TRUE(Validate(picked, SessionWish{}, Session()).ok());
  picked = ShardOfBlock();
  picked.picks = std::string(7, 'x');
  EXPECT_FALSE(Validate(picked, Deterministic(), Session()).ok());
}

TEST(Validate, RefusesWhatDoesNotFitTheSession) {
  const std::vector<std::function<void(ShardFrame*)>> changes = {
      [](ShardFrame* shard) { shard->shard = 20; },
      [](ShardFrame* shard) { shard->records = 1001; },
      [](ShardFrame* shard) { shard->length_bytes = kMostShardBytes + 1; },
      [](ShardFrame* shard) { shard->picks = std::string(6, 'x'); },
      [](ShardFrame* shard) { shard->picks = std::string(7 * 65, 'x'); },
      [](ShardFrame* shard) { shard->records = 0, shard->picks = "x"; },
      [](ShardFrame* shard) { shard->place.offset = 1; },
      [](ShardFrame* shard) { shard->place.position = 1; },
      [](ShardFrame* shard) { shard->place.block_records = 50; },
      [](ShardFrame* shard) { shard->place.block_shards = 1; },
  };
  for (const auto& change : changes) {
    ShardFrame shard = Shard();
    change(&shard);
    const Status status = Validate(shard, SessionWish{}, Session());
    EXPECT_EQ(status.code(), Code::kAborted);
    EXPECT_NE(status.message().find("shard " + std::to_string(shard.shard)), std::string::npos);
  }
}

TEST(Validate, RefusesBlocksThatCannotBe) {
  const std::vector<std::function<void(Place*)>> changes = {
      [](Place* place) { *place = Place{}; },
      [](Place* place) { place->block_shards = 0; },
      [](Place* place) { place->block_shards = 21; },
      [](Place* place) { place->block_records = 199; },
      [](Place* place) { place->block_records = 0xffffffffu; },
      [](Place* place) { place->position = 801; },
      [](Place* place) { place->position = ~uint64_t{0}; },
      [](Place* place) { place->offset = 0xffffffffu; },
  };
  for (const auto& change : changes) {
    ShardFrame shard = ShardOfBlock();
    change(&shard.place);
    EXPECT_EQ(Validate(shard, Deterministic(), Session()).code(), Code::kAborted);
  }
  // As large as its data set says, but no block of this session is.
  Opened huge = Session();
  huge.records = uint64_t{1} << 40;
  ShardFrame shard = ShardOfBlock();
  shard.place.block_records = 0xffffffffu;
  EXPECT_EQ(Validate(shard, Deterministic(), huge).code(), Code::kAborted);
}

// What passes can be believed, whatever came.
TEST(Validate, WhatPassesIsWithinItsBounds) {
  Random random(11);
  const auto number = [&random](uint64_t usual) {
    return random.Below(4) == 0 ? random.Next() : random.Below(usual);
  };
  int passed = 0;
  for (int i = 0; i < 50'000; ++i) {
    ShardFrame shard;
    shard.shard = static_cast<uint32_t>(number(20));
    shard.length_bytes = number(5000);
    shard.records = static_cast<uint32_t>(number(50));
    shard.place.position = number(800);
    shard.place.offset = static_cast<uint32_t>(number(100));
    shard.place.block_records = static_cast<uint32_t>(number(200));
    shard.place.block_shards = static_cast<uint32_t>(number(5));
    if (!Validate(shard, Deterministic(), Session()).ok()) continue;
    ++passed;
    EXPECT_LT(shard.shard, 20u);
    EXPECT_LE(shard.place.position + shard.place.block_records, 1000u);
    EXPECT_LE(uint64_t{shard.place.offset} + shard.records, shard.place.block_records);
    EXPECT_GT(shard.place.block_shards, 0u);
  }
  EXPECT_GT(passed, 1000);
}

}  // namespace
}  // namespace tfquiver
