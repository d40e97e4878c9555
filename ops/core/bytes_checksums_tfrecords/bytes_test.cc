#include "ops/core/bytes_checksums_tfrecords/bytes.h"

#include "ops/core/shuffle_pool_and_order/random.h"
#include "ops/testing/test_support.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

TEST(Bytes, WhatWasPutIsGotAndNothingAfterIt) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    const uint64_t number = random.Next() >> random.Below(64);
    const std::string text(random.Below(300), 'x');
    std::string out;
    Put(number, &out);
    Put(static_cast<uint16_t>(number), &out);
    PutSized<uint16_t>(text, &out);
    PutVarint(number >> 1, &out);
    // However short, it is refused, and never read past its end.
    for (size_t size = 0; size <= out.size(); ++size) {
      const std::string cut = out.substr(0, size);
      std::string_view in = cut;
      uint64_t whole;
      uint16_t half;
      std::string_view sized;
      uint64_t varint;
      const bool got = Get(&in, &whole) && Get(&in, &half) && GetSized<uint16_t>(&in, &sized) &&
                       GetVarint(&in, &varint);
      ASSERT_EQ(got, size == out.size());
      if (!got) continue;
      EXPECT_EQ(whole, number);
      EXPECT_EQ(half, static_cast<uint16_t>(number));
      EXPECT_EQ(sized, text);
      EXPECT_EQ(varint, number >> 1);
      EXPECT_TRUE(in.empty());
    }
  }
}

TEST(Bytes, AVarintOfMoreThan63BitsIsRefused) {
  const std::string endless(20, '\xff');
  std::string_view in = endless;
  uint64_t value;
  EXPECT_FALSE(GetVarint(&in, &value));
}

TEST(Bytes, ASignatureIsKnownInEveryVersion) {
  std::string text;
  PutSignature({"TQXX", 3}, &text);
  EXPECT_EQ(text, std::string("TQXX\3"));
  uint8_t version = 0;
  std::string_view in = text;
  EXPECT_TRUE(GetSignature({"TQXX", 1}, &in, &version));
  EXPECT_EQ(version, 3);
  for (const std::string& other :
       {std::string(), std::string("TQX"), std::string("TQXX"), std::string("TQXY\3")}) {
    in = other;
    EXPECT_FALSE(GetSignature({"TQXX", 3}, &in, &version));
  }
}

TEST(Bytes, EveryBitIsUnderTheChecksum) {
  std::string text = "some text";
  PutChecksum(&SlowCrc32c, &text);
  std::string_view in = text;
  EXPECT_TRUE(CutChecksum(&SlowCrc32c, &in));
  EXPECT_EQ(in, "some text");
  for (size_t bit = 0; bit < 8 * text.size(); ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
    in = damaged;
    EXPECT_FALSE(CutChecksum(&SlowCrc32c, &in));
  }
  in = std::string_view(text).substr(0, 3);
  EXPECT_FALSE(CutChecksum(&SlowCrc32c, &in));
}

}  // namespace
}  // namespace tfquiver
