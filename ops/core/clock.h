#ifndef TFQUIVER_OPS_CORE_CLOCK_H_
#define TFQUIVER_OPS_CORE_CLOCK_H_

#include <chrono>

namespace tfquiver {

// Of all deadlines and pauses.
using Clock = std::chrono::steady_clock;

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_CLOCK_H_
