#include "ops/core/bytes_checksums_tfrecords/tfrecord.h"

#include "ops/testing/test_support.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

TEST(ParseRecords, FindsPayloads) {
  const std::string bytes = Framed({"one", "", "three"});
  std::vector<RecordSpan> spans;
  ASSERT_TRUE(ParseRecords(bytes.data(), bytes.size(), 3, &spans));
  EXPECT_EQ(bytes.substr(spans[0].offset, spans[0].size), "one");
  EXPECT_EQ(spans[1].size, 0u);
  EXPECT_EQ(bytes.substr(spans[2].offset, spans[2].size), "three");
}

TEST(ParseRecords, RefusesWrongCountsAndBounds) {
  const std::string bytes = Framed({"one", "", "three"});
  std::vector<RecordSpan> spans;
  EXPECT_FALSE(ParseRecords(bytes.data(), bytes.size(), 2, &spans));
  EXPECT_FALSE(ParseRecords(bytes.data(), bytes.size(), 4, &spans));
  EXPECT_FALSE(ParseRecords(bytes.data(), bytes.size(), 0xffffffffu, &spans));
  for (size_t size = 1; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParseRecords(bytes.data(), size, 3, &spans)) << size;
  }
  EXPECT_TRUE(ParseRecords(bytes.data(), 0, 0, &spans));
}

TEST(ParseRecords, RefusesLengthsThatWrapAround) {
  for (uint64_t length : {~uint64_t{0}, ~uint64_t{0} - 15, uint64_t{1} << 63, uint64_t{4}}) {
    std::string bytes = Framed({"abc"});
    std::memcpy(bytes.data(), &length, sizeof(length));
    std::vector<RecordSpan> spans;
    EXPECT_FALSE(ParseRecords(bytes.data(), bytes.size(), 1, &spans)) << length;
  }
}

}  // namespace
}  // namespace tfquiver
