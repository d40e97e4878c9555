#include "ops/core/bytes_checksums_tfrecords/crc32c.h"

#include <string>

#include "ops/core/shuffle_pool_and_order/random.h"
#include "ops/testing/test_support.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

TEST(Crc32c, CheckValue) {
  EXPECT_EQ(FastestCrc32c(&SlowCrc32c)(0, "123456789", 9), 0xe3069283u);
  EXPECT_EQ(FastestCrc32c(&SlowCrc32c)(0, "", 0), 0u);
}

class AnyCrc32c : public ::testing::TestWithParam<Crc32cExtend> {};

TEST_P(AnyCrc32c, AgreesWithSlowAtEveryLengthAndSplit) {
  const Crc32cExtend fast = GetParam();
  Random random(1);
  std::string bytes;
  for (int i = 0; i < 40'000; ++i) bytes.push_back(static_cast<char>(random.Next()));
  for (size_t size : {1, 7, 8, 9, 767, 768, 769, 1535, 1536, 12'287, 12'288, 12'289, 39'999}) {
    const uint32_t expected = SlowCrc32c(0, bytes.data(), size);
    EXPECT_EQ(fast(0, bytes.data(), size), expected) << size;
    const size_t split = random.Below(size);
    EXPECT_EQ(fast(fast(0, bytes.data(), split), bytes.data() + split, size - split), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Both, AnyCrc32c,
                         ::testing::Values(FastestCrc32c(&SlowCrc32c), &PortableCrc32c));

}  // namespace
}  // namespace tfquiver
