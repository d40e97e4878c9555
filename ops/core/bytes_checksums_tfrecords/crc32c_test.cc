#include "ops/core/bytes_checksums_tfrecords/crc32c.h"

#include <string>
#include <vector>

#include "ops/core/shuffle_pool_and_order/random.h"
#include "ops/testing/test_support.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

TEST(Crc32c, CheckValue) {
  EXPECT_EQ(FastestCrc32c(&SlowCrc32c)(0, "123456789", 9), 0xe3069283u);
  EXPECT_EQ(FastestCrc32c(&SlowCrc32c)(0, "", 0), 0u);
}

TEST(Crc32c, EachAgreesWithSlowAtEveryLengthAndSplit) {
  Random random(1);
  std::string bytes;
  for (int i = 0; i < 40'000; ++i) bytes.push_back(static_cast<char>(random.Next()));
  std::vector<Crc32cExtend> all = OwnCrc32c();
  all.push_back(&PortableCrc32c);
  for (size_t size : {1, 7, 8, 9, 767, 768, 769, 1023, 1024, 1025, 1279, 1280, 1281, 1535, 1536,
                      12'287, 12'288, 12'289, 39'999}) {
    // Wherever they lie.
    const char* const data = bytes.data() + random.Below(bytes.size() - size);
    const uint32_t expected = SlowCrc32c(0, data, size);
    const size_t split = random.Below(size);
    for (size_t one = 0; one < all.size(); ++one) {
      EXPECT_EQ(all[one](0, data, size), expected) << one << " of " << size;
      EXPECT_EQ(all[one](all[one](0, data, split), data + split, size - split), expected)
          << one << " of " << size << " at " << split;
    }
  }
}

}  // namespace
}  // namespace tfquiver
