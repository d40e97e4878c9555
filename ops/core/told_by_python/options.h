#ifndef TFQUIVER_OPS_CORE_TOLD_BY_PYTHON_OPTIONS_H_
#define TFQUIVER_OPS_CORE_TOLD_BY_PYTHON_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/core/status.h"

namespace tfquiver {

// The op's `options` input: one flat JSON object. Absent keys keep these defaults; unknown ones are
// an error.
struct Options {
  std::string endpoint;  // name of the node's socket in this process (Process::SetEndpoint)
  std::string job;
  int64_t batch_size = 0;  // 0: elements are single records
  bool drop_remainder = false;
  int64_t parse_threads = 0;  // that parse a batch; 0: as many as there are cores, up to 16
  bool tagged = false;        // records come with their tags (record_tag.h) and their session
  bool keeps_tags = false;    // records have their tags, for whoever names one; not of the JSON
  int64_t shuffle_bytes = 64 << 20;
  int64_t seed = 0;  // 0: drawn at random
  int64_t readahead_bytes = 16 << 20;
  int64_t hold_back = 0;  // elements
  int64_t reconnect_ms = 60'000;
  int64_t connect_ms = 10'000;
  bool files = false;  // the stored order, whatever else: one reader
  bool deterministic = false;
  bool homogeneous = false;
  bool joins = false;          // a stream: the session of its key that is open, whoever made it
  bool with_position = false;  // elements are (position, record); deterministic only
  std::string order_log;       // folder; empty: the order is not logged
  std::string replay;          // a log, or a folder of them; empty: none
  // A scheme of sampling, which the coordinator has been told of, and its arguments, hashed: how
  // many records an epoch has is not known before it begins. Empty: each record once.
  std::string sampling;
};

// kInvalidArgument naming the key, or the place where the text stops being JSON.
Status ParseOptions(std::string_view json, Options* options);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_TOLD_BY_PYTHON_OPTIONS_H_
