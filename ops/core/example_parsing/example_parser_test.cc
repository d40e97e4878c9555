#include "ops/core/example_parsing/example_parser.h"

#include <string>
#include <vector>

#include "ops/core/shuffle_pool_and_order/random.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes += static_cast<char>(value);
}

std::string Field(int number, const std::string& bytes) {
  return Varint(static_cast<uint64_t>(number) << 3 | 2) + Varint(bytes.size()) + bytes;
}

std::string Entry(const std::string& name, const std::string& feature) {
  return Field(1, Field(1, name) + Field(2, feature));
}

std::string Int64s(const std::vector<int64_t>& values) {
  std::string packed;
  for (int64_t value : values) packed += Varint(static_cast<uint64_t>(value));
  return Field(3, Field(1, packed));
}

std::string Floats(const std::vector<float>& values) {
  const std::string packed(reinterpret_cast<const char*>(values.data()), 4 * values.size());
  return Field(2, Field(1, packed));
}

std::string Bytes(const std::vector<std::string>& values) {
  std::string list;
  for (const std::string& value : values) list += Field(1, value);
  return Field(1, list);
}

class ExampleParserTest : public ::testing::Test {
 protected:
  bool Parse(const std::string& record) {
    // A copy of just this size: AddressSanitizer sees who reads on.
    std::vector<char> exact(record.begin(), record.end());
    ExampleRow row;
    row.of = {numbers_, floats_, texts_};
    const bool usual = parser_.Parse({exact.data(), exact.size()}, row, &seen_);
    for (size_t i = 0; usual && seen_[2] && i < 2; ++i) found_[i] = std::string(texts_[i]);
    return usual;
  }
  bool ParseMap(const std::string& map) { return Parse(Field(1, map)); }

  const ExampleParser parser_{{{"numbers", FeatureKind::kInt64, 3, false},
                               {"x", FeatureKind::kFloat, 1, true},
                               {"texts_of_a_long_name", FeatureKind::kBytes, 2, false}}};
  const std::string whole_ = Entry("texts_of_a_long_name", Bytes({"", std::string(300, 'b')})) +
                             Entry("other", Int64s({7})) + Entry("x", Floats({-0.5f})) +
                             Entry("numbers", Int64s({-1, 0, int64_t{1} << 62}));
  int64_t numbers_[3] = {};
  float floats_[1] = {};
  std::string_view texts_[2];
  std::string found_[2];
  std::vector<uint8_t> seen_;
};

TEST_F(ExampleParserTest, FindsTheValuesInAnyOrderOfFeatures) {
  ASSERT_TRUE(ParseMap(whole_));
  EXPECT_EQ(numbers_[0], -1);
  EXPECT_EQ(numbers_[1], 0);
  EXPECT_EQ(numbers_[2], int64_t{1} << 62);
  EXPECT_EQ(floats_[0], -0.5f);
  EXPECT_EQ(found_[0], "");
  EXPECT_EQ(found_[1], std::string(300, 'b'));
}

TEST_F(ExampleParserTest, AFeatureThatMayLackIsNotSeen) {
  ASSERT_TRUE(ParseMap(Entry("numbers", Int64s({1, 2, 3})) +
                       Entry("texts_of_a_long_name", Bytes({"a", "b"}))));
  EXPECT_EQ(seen_[0], 1);
  EXPECT_EQ(seen_[1], 0);
  EXPECT_EQ(seen_[2], 1);
}

TEST_F(ExampleParserTest, LeavesAloneWhatIsNotUsual) {
  const std::string texts = Entry("texts_of_a_long_name", Bytes({"a", "b"}));
  const std::string numbers = Entry("numbers", Int64s({1, 2, 3}));
  ASSERT_TRUE(ParseMap(texts + numbers));
  EXPECT_FALSE(Parse(""));
  EXPECT_FALSE(ParseMap(""));
  EXPECT_FALSE(ParseMap(texts));                                     // one lacks
  EXPECT_FALSE(ParseMap(texts + numbers + numbers));                 // twice
  EXPECT_FALSE(ParseMap(texts + Entry("numbers", Int64s({1, 2}))));  // too few
  EXPECT_FALSE(ParseMap(texts + Entry("numbers", Int64s({1, 2, 3, 4}))));
  EXPECT_FALSE(ParseMap(texts + Entry("numbers", Floats({1, 2, 3}))));  // of another type
  EXPECT_FALSE(ParseMap(texts + Entry("numbers", "")));
  EXPECT_FALSE(ParseMap(texts + Entry("numbers", Field(3, ""))));
  EXPECT_FALSE(ParseMap(texts + numbers + Entry("x", Floats({}))));
  EXPECT_FALSE(ParseMap(texts + Field(2, "") + numbers));    // a field that is not known
  EXPECT_FALSE(Parse(Field(1, texts) + Field(1, numbers)));  // in two parts
  const std::string one_by_one = Varint(1 << 3) + Varint(1) + Varint(1 << 3) + Varint(2);
  EXPECT_FALSE(ParseMap(texts + Entry("numbers", Field(3, one_by_one + Varint(8) + Varint(3)))));
  const std::string wide = Varint(1) + Varint(2) + std::string(9, '\xff') + '\x7f';
  EXPECT_FALSE(ParseMap(texts + Entry("numbers", Field(3, Field(1, wide)))));
}

TEST_F(ExampleParserTest, GarbageIsNotReadBeyondItsEnd) {
  const std::string record = Field(1, whole_);
  ASSERT_TRUE(Parse(record));
  for (size_t size = 0; size < record.size(); ++size) EXPECT_FALSE(Parse(record.substr(0, size)));
  Random random(5);
  for (int round = 0; round < 20'000; ++round) {
    std::string damaged = record;
    for (int i = 0; i < 3; ++i) {
      damaged[random.Below(static_cast<uint32_t>(damaged.size()))] =
          static_cast<char>(random.Below(256));
    }
    Parse(damaged);
  }
}

TEST(ExampleParser, TellsManyNamesApart) {
  std::vector<DenseFeature> features;
  for (int i = 0; i < 500; ++i) {
    features.push_back({"feature_" + std::to_string(i) + "_end", FeatureKind::kInt64, 1, false});
  }
  features.push_back({"", FeatureKind::kInt64, 1, false});
  const ExampleParser parser(features);
  std::vector<int64_t> values(features.size());
  ExampleRow row;
  std::string map;
  for (size_t i = 0; i < features.size(); ++i) {
    row.of.push_back(&values[i]);
    map = Entry(features[i].name, Int64s({static_cast<int64_t>(i)})) + map;
  }
  std::vector<uint8_t> seen;
  ASSERT_TRUE(parser.Parse(Field(1, map), row, &seen));
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], static_cast<int64_t>(i));
}

}  // namespace
}  // namespace tfquiver
