#ifndef TFQUIVER_OPS_CORE_READER_THROUGHPUT_AND_WAITS_REPORT_H_
#define TFQUIVER_OPS_CORE_READER_THROUGHPUT_AND_WAITS_REPORT_H_

#include <cstdint>

namespace tfquiver {

// What a reader has given to the pipeline behind it, and how long that waited for it; all since its
// first draw.
struct Report {
  uint64_t records = 0;
  uint64_t bytes = 0;  // of the TFRecord file, framing included
  uint64_t waited_us = 0;
  uint64_t elapsed_us = 0;  // until the last record was given
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_READER_THROUGHPUT_AND_WAITS_REPORT_H_
