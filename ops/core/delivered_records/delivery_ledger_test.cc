#include "ops/core/delivered_records/delivery_ledger.h"

#include <algorithm>
#include <map>
#include <set>

#include "ops/core/record_tag.h"
#include "ops/core/shuffle_pool_and_order/random.h"
#include "ops/testing/test_support.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

using Verdict = DeliveryLedger::Verdict;

// Stands for zlib.
std::string Same(const std::string& bytes) { return bytes; }
bool IsSame(std::string_view stored, size_t size, std::string* bytes) {
  *bytes = std::string(stored);
  return stored.size() == size;
}
constexpr ZlibCodec kCodec{&Same, &IsSame};
const std::string kDigest(32, 'd');

// Tags of a data set whose i-th shard has lengths[i] records.
std::vector<uint64_t> Tags(const std::vector<uint32_t>& lengths) {
  std::vector<uint64_t> tags;
  for (uint32_t shard = 0; shard < lengths.size(); ++shard) {
    for (uint32_t i = 0; i < lengths[shard]; ++i) {
      tags.push_back(MakeTag(shard, i, i + 1 == lengths[shard]));
    }
  }
  return tags;
}

TEST(RecordTag, HoldsWhatItIsMadeOf) {
  for (uint32_t shard : {0u, 1u, static_cast<uint32_t>(kMostTagShards - 1)}) {
    for (uint32_t index : {0u, 7u, 0xffffffffu}) {
      for (bool last : {false, true}) {
        const uint64_t tag = MakeTag(shard, index, last);
        EXPECT_EQ(TagShard(tag), shard);
        EXPECT_EQ(TagIndex(tag), index);
        EXPECT_EQ(TagIsLast(tag), last);
        EXPECT_GE(static_cast<int64_t>(tag), 0);
      }
    }
  }
}

TEST(DeliveryLedger, LetsEachRecordThroughOnceInAnyOrder) {
  Random random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<uint32_t> lengths;
    uint64_t records = 0;
    for (uint64_t i = 1 + random.Below(12); i > 0; --i) {
      lengths.push_back(static_cast<uint32_t>(1 + random.Below(30)));
      records += lengths.back();
    }
    std::vector<uint64_t> coming = Tags(lengths);
    for (uint64_t i = random.Below(200); i > 0; --i)
      coming.push_back(coming[random.Below(records)]);
    for (size_t i = coming.size(); i > 1; --i) std::swap(coming[i - 1], coming[random.Below(i)]);

    DeliveryLedger ledger(records, lengths.size(), 0);
    std::set<uint64_t> seen;
    std::map<uint32_t, uint32_t> of_shard;
    std::set<uint32_t> acked;
    for (uint64_t tag : coming) {
      const bool fresh = seen.insert(tag).second;
      ASSERT_EQ(ledger.Deliver(tag), fresh ? Verdict::kNew : Verdict::kDuplicate);
      of_shard[TagShard(tag)] += fresh ? 1 : 0;
      ledger.ElementDelivered();
      for (uint32_t shard : ledger.TakeAckable()) {
        EXPECT_TRUE(acked.insert(shard).second);
        EXPECT_EQ(of_shard[shard], lengths[shard]);
      }
      EXPECT_EQ(ledger.delivered(), seen.size());
      EXPECT_EQ(ledger.complete(), seen.size() == records);
    }
    EXPECT_EQ(acked.size(), lengths.size());
    EXPECT_EQ(ledger.missing(), 0u);
  }
}

TEST(DeliveryLedger, HoldsAcksBackByElements) {
  DeliveryLedger ledger(3, 3, 2);
  for (uint32_t shard = 0; shard < 3; ++shard) {
    EXPECT_EQ(ledger.Deliver(MakeTag(shard, 0, true)), Verdict::kNew);
    ledger.ElementDelivered();
    EXPECT_EQ(ledger.TakeAckable(), shard < 2 ? std::vector<uint32_t>{} : std::vector<uint32_t>{0});
    EXPECT_EQ(ledger.Acked(), shard < 2 ? std::vector<uint32_t>{} : std::vector<uint32_t>{0});
  }
  ledger.EndDelivered();
  EXPECT_EQ(ledger.TakeAckable(), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(ledger.Acked(), (std::vector<uint32_t>{0, 1, 2}));
}

TEST(DeliveryLedger, RefusesWhatIsNotInTheDataSet) {
  DeliveryLedger ledger(10, 2, 0);
  EXPECT_EQ(ledger.Deliver(MakeTag(2, 0, false)), Verdict::kWrong);
  EXPECT_EQ(ledger.Deliver(MakeTag(0, 10, false)), Verdict::kWrong);
  EXPECT_EQ(ledger.Deliver(~uint64_t{0}), Verdict::kWrong);
  EXPECT_EQ(ledger.Deliver(MakeTag(0, 3, true)), Verdict::kNew);
  EXPECT_EQ(ledger.Deliver(MakeTag(0, 4, false)), Verdict::kWrong);
  EXPECT_EQ(ledger.Deliver(MakeTag(0, 2, true)), Verdict::kWrong);
  EXPECT_EQ(ledger.delivered(), 1u);
}

TEST(DeliveryLedger, AnEmptyDataSetIsComplete) { EXPECT_TRUE(DeliveryLedger(0, 0, 0).complete()); }

TEST(DeliveryLedger, KeepsNothingOfWholeShardsButABit) {
  const uint32_t shards = 320;
  const uint32_t records = 8000;
  DeliveryLedger ledger(uint64_t{shards} * records, shards, 0);
  // 32 shards at a time, as they lie in a reader's pool of 64 MiB.
  uint64_t most = 0;
  for (uint32_t first = 0; first < shards; first += 32) {
    const uint32_t last = std::min(first + 32, shards);
    for (uint32_t i = 0; i < records; ++i) {
      for (uint32_t shard = first; shard < last; ++shard) {
        ASSERT_EQ(ledger.Deliver(MakeTag(shard, i, i + 1 == records)), Verdict::kNew);
      }
      if (i == records - 1 || i == records / 2) most = std::max(most, ledger.memory_bytes());
    }
    ledger.ElementDelivered();
    ledger.TakeAckable();
  }
  EXPECT_TRUE(ledger.complete());
  EXPECT_LT(most, 100u << 10);
  EXPECT_LT(ledger.memory_bytes(), 1u << 10);
}

TEST(DeliveryLedger, IsWrittenDownAndGoesOn) {
  std::vector<uint64_t> tags = Tags({5, 1, 9, 40});
  Random random(7);
  for (size_t i = tags.size(); i > 1; --i) std::swap(tags[i - 1], tags[random.Below(i)]);
  for (size_t cut = 0; cut <= tags.size(); cut += 5) {
    DeliveryLedger before(tags.size(), 4, 3);
    for (size_t i = 0; i < cut; ++i) EXPECT_EQ(before.Deliver(tags[i]), Verdict::kNew);
    DeliveryLedger after(tags.size(), 4, 3);
    ASSERT_TRUE(
        after.Read(before.Write(kDigest, &SlowCrc32c, kCodec), kDigest, &SlowCrc32c, kCodec).ok());
    EXPECT_EQ(after.delivered(), cut);
    EXPECT_EQ(after.Done().done, before.Done().done);
    for (size_t i = 0; i < tags.size(); ++i) {
      EXPECT_EQ(after.Deliver(tags[i]), i < cut ? Verdict::kDuplicate : Verdict::kNew);
    }
    EXPECT_TRUE(after.complete());
  }
}

TEST(DeliveryLedger, RefusesDamageAndOtherData) {
  DeliveryLedger ledger(55, 4, 0);
  EXPECT_EQ(ledger.Deliver(MakeTag(3, 17, false)), Verdict::kNew);
  const std::string written = ledger.Write(kDigest, &SlowCrc32c, kCodec);
  const auto read = [](const std::string& bytes, const std::string& digest, uint64_t records) {
    DeliveryLedger other(records, 4, 0);
    return other.Read(bytes, digest, &SlowCrc32c, kCodec).code();
  };
  EXPECT_EQ(read(written, kDigest, 55), Code::kOk);
  EXPECT_EQ(read(written, std::string(32, 'e'), 55), Code::kInvalidArgument);
  EXPECT_EQ(read(written, kDigest, 56), Code::kInvalidArgument);
  for (size_t i = 0; i < written.size(); ++i) {
    std::string damaged = written;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    EXPECT_EQ(read(damaged, kDigest, 55), Code::kInvalidArgument) << i;
    EXPECT_EQ(read(written.substr(0, i), kDigest, 55), Code::kInvalidArgument) << i;
  }
}

}  // namespace
}  // namespace tfquiver
