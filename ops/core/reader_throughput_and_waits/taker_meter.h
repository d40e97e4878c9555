#ifndef TFQUIVER_OPS_CORE_READER_THROUGHPUT_AND_WAITS_TAKER_METER_H_
#define TFQUIVER_OPS_CORE_READER_THROUGHPUT_AND_WAITS_TAKER_METER_H_

#include <chrono>
#include <cstdint>

#include "ops/core/clock.h"
#include "ops/core/reader_throughput_and_waits/report.h"

namespace tfquiver {

// What the taker has had, and how long it waited for it. Is told the time, but for records only
// where it waited: most draws find them here, and a look at the clock costs more than a record. Not
// thread-safe.
class TakerMeter {
 public:
  using Time = Clock::time_point;

  bool begun() const { return began_ != Time{}; }
  void Begin(Time now) { began_ = now; }

  void Took(uint64_t records, uint64_t bytes) {
    records_ += records;
    bytes_ += bytes;
  }
  // From the first of these on it waits, until the next WaitsNoMore.
  void Waits(Time now) {
    if (!waits()) waits_since_ = now;
  }
  bool waits() const { return waits_since_ != Time{}; }
  void WaitsNoMore(Time now) {
    if (waits()) waited_ += now - waits_since_;
    waits_since_ = Time{};
  }
  // It has had everything: what it does from the first of these on is no matter.
  void End(Time now) {
    WaitsNoMore(now);
    if (ended_ == Time{}) ended_ = now;
  }

  Report At(Time now) const {
    Report report;
    report.records = records_;
    report.bytes = bytes_;
    if (!begun()) return report;
    if (ended_ != Time{}) now = ended_;
    report.waited_us = Microseconds(waits() ? waited_ + (now - waits_since_) : waited_);
    report.elapsed_us = Microseconds(now - began_);
    return report;
  }

 private:
  static uint64_t Microseconds(Clock::duration duration) {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(duration).count());
  }

  uint64_t records_ = 0;
  uint64_t bytes_ = 0;
  Clock::duration waited_{};
  Time began_{};
  Time waits_since_{};
  Time ended_{};
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_READER_THROUGHPUT_AND_WAITS_TAKER_METER_H_
