// The two rules by which taker and feeder wait for each other, each told the time and the bytes.

#include "ops/core/record_memory/credit.h"
#include "ops/core/shuffle_pool_and_order/filling.h"
#include "ops/core/shuffle_pool_and_order/random.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

using std::chrono::milliseconds;

constexpr Filling::Time At(int ms) { return Filling::Time(milliseconds(ms)); }

Filling Of100Bytes() { return Filling({100, milliseconds(50), milliseconds(1000)}); }

TEST(Filling, IsFullAtFirstAndHalfFullLater) {
  Filling filling = Of100Bytes();
  EXPECT_FALSE(filling.Enough(99, 1));
  EXPECT_TRUE(filling.Enough(100, 1));
  filling.Drew();
  EXPECT_TRUE(filling.Enough(50, 1));
  EXPECT_FALSE(filling.Enough(49, 1));
}

TEST(Filling, ManySmallShardsAreEnoughBeforeTheirBytesAre) {
  constexpr uint64_t kFullBytes = 64 << 20;
  Filling filling({kFullBytes, milliseconds(50), milliseconds(1000)});
  EXPECT_FALSE(filling.Enough(255 << 10, 255));
  EXPECT_TRUE(filling.Enough(256 << 10, 256));
  filling.Drew();
  EXPECT_TRUE(filling.Enough(128 << 10, 128));
  EXPECT_FALSE(filling.Enough(127 << 10, 127));
  Filling small = Of100Bytes();  // a handful of shards is never many
  EXPECT_FALSE(small.Enough(99, 63));
  EXPECT_TRUE(small.Enough(99, 64));
}

TEST(Filling, NothingMoreIsEnough) {
  Filling filling = Of100Bytes();
  filling.Expect(2);
  filling.Expect(7);  // a node that came back says what is known
  filling.Arrived(At(1));
  EXPECT_FALSE(filling.Enough(10, 1));
  filling.Arrived(At(2));
  EXPECT_TRUE(filling.Enough(10, 1));
  filling.Arrived(At(3));  // one that was dropped, and came again
  EXPECT_TRUE(filling.Enough(10, 1));
}

TEST(Filling, PatienceBeginsAnewWithEachShardButNotForEver) {
  Filling filling = Of100Bytes();
  filling.Arrived(At(10'000));
  EXPECT_TRUE(filling.GiveUp(At(10'000)) == At(10'050));
  filling.Arrived(At(10'040));
  EXPECT_TRUE(filling.GiveUp(At(10'000)) == At(10'090));
  filling.Arrived(At(10'990));
  EXPECT_TRUE(filling.GiveUp(At(10'000)) == At(11'000));
}

// What the node was given is always what is here, what is owed, and what is under way.
TEST(Credit, IsNeitherLostNorMade) {
  constexpr uint64_t kCapacityBytes = 10'000;
  Credit credit(kCapacityBytes);
  Random random(4);
  uint64_t with_node_bytes = kCapacityBytes;
  for (int step = 0; step < 10'000; ++step) {
    if (random.Below(2) == 0) {
      const uint64_t length_bytes = random.Below(with_node_bytes + 1);
      with_node_bytes -= length_bytes;
      credit.Came(length_bytes, random.Below(length_bytes + 1));
    } else {
      credit.Gone(random.Below(credit.here_bytes() + 1));
    }
    EXPECT_LE(credit.here_bytes(), kCapacityBytes);
    if (!credit.worth_saying()) continue;
    EXPECT_TRUE(credit.owes());
    const uint64_t paid_bytes = credit.Pay();
    EXPECT_GE(paid_bytes, kCapacityBytes / 16);
    EXPECT_FALSE(credit.owes());
    with_node_bytes += paid_bytes;
    EXPECT_EQ(with_node_bytes + credit.here_bytes(), kCapacityBytes);
  }
}

}  // namespace
}  // namespace tfquiver
