#ifndef TFQUIVER_OPS_TF_PARSING_PARSE_THREADS_H_
#define TFQUIVER_OPS_TF_PARSING_PARSE_THREADS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "tensorflow/core/lib/core/threadpool.h"

namespace tfquiver {

// Those that work on the batches of one iterator: the one that calls, and helpers that are made
// when first needed.
class ParseThreads {
 public:
  // `threads`: altogether; 0: as many as there are cores, up to 16.
  explicit ParseThreads(int64_t threads);

  // Calls `work` for all of 0 to `records`, in runs; `cycles`: what one record costs, about, so
  // that small batches stay on one thread.
  void InParallel(int64_t records, int64_t cycles,
                  const std::function<void(int64_t, int64_t)>& work);
  // The helpers; null: there are none.
  tensorflow::thread::ThreadPool* helpers();

 private:
  const int64_t count_;
  std::unique_ptr<tensorflow::thread::ThreadPool> helpers_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_PARSING_PARSE_THREADS_H_
