#include "ops/core/reader_throughput_and_waits/taker_meter.h"

#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

constexpr TakerMeter::Time AtMs(int ms) {
  return TakerMeter::Time(std::chrono::milliseconds(1000 + ms));
}

TEST(TakerMeter, SaysNothingBeforeTheFirstDraw) {
  const TakerMeter meter;
  EXPECT_FALSE(meter.begun());
  EXPECT_EQ(meter.At(AtMs(5)).elapsed_us, 0u);
}

TEST(TakerMeter, CountsWhatWasTakenAndAWaitThatIsStillGoingOn) {
  TakerMeter meter;
  meter.Begin(AtMs(0));
  meter.Waits(AtMs(10));
  meter.Waits(AtMs(20));  // the same wait
  EXPECT_EQ(meter.At(AtMs(30)).waited_us, 20'000u);
  meter.WaitsNoMore(AtMs(40));
  meter.WaitsNoMore(AtMs(50));
  meter.Took(3, 100);
  meter.Took(1, 7);
  meter.Waits(AtMs(60));
  const Report report = meter.At(AtMs(65));
  EXPECT_EQ(report.records, 4u);
  EXPECT_EQ(report.bytes, 107u);
  EXPECT_EQ(report.waited_us, 35'000u);
  EXPECT_EQ(report.elapsed_us, 65'000u);
}

TEST(TakerMeter, StandsStillAfterTheEnd) {
  TakerMeter meter;
  meter.Begin(AtMs(0));
  meter.Waits(AtMs(1));
  meter.End(AtMs(4));
  meter.End(AtMs(9));
  EXPECT_EQ(meter.At(AtMs(100)).elapsed_us, 4'000u);
  EXPECT_EQ(meter.At(AtMs(100)).waited_us, 3'000u);
}

}  // namespace
}  // namespace tfquiver
