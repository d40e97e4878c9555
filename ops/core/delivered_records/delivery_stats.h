#ifndef TFQUIVER_OPS_CORE_DELIVERED_RECORDS_DELIVERY_STATS_H_
#define TFQUIVER_OPS_CORE_DELIVERED_RECORDS_DELIVERY_STATS_H_

#include <atomic>
#include <cstdint>

namespace tfquiver {

// What the exactly-once iterators of this process have done since it began.
struct DeliveryStats {
  std::atomic<uint64_t> epochs{0};      // delivered whole
  std::atomic<uint64_t> delivered{0};   // records
  std::atomic<uint64_t> duplicates{0};  // records dropped
  std::atomic<uint64_t> mopped_up{0};   // of those delivered: read by the trainer itself
  std::atomic<uint64_t> takeovers{0};   // times the trainer did not wait for the workers any longer

  static DeliveryStats& Get() {
    static DeliveryStats* const stats = new DeliveryStats;
    return *stats;
  }
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_DELIVERED_RECORDS_DELIVERY_STATS_H_
