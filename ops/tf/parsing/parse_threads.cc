#include "ops/tf/parsing/parse_threads.h"

#include <algorithm>
#include <thread>

#include "tensorflow/core/platform/env.h"

namespace tfquiver {
namespace {

// Less is not worth waking anybody.
constexpr int64_t kLeastParallelCycles = 100'000;
constexpr int64_t kMostThreadsByDefault = 16;

int64_t HelpersOf(int64_t threads) {
  if (threads > 0) return threads - 1;
  return std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, kMostThreadsByDefault) - 1;
}

}  // namespace

ParseThreads::ParseThreads(int64_t threads) : count_(HelpersOf(threads)) {}

tensorflow::thread::ThreadPool* ParseThreads::helpers() {
  if (count_ > 0 && helpers_ == nullptr) {
    helpers_ = std::make_unique<tensorflow::thread::ThreadPool>(
        tensorflow::Env::Default(), "tfquiver_parse", static_cast<int>(count_));
  }
  return helpers_.get();
}

void ParseThreads::InParallel(int64_t records, int64_t cycles,
                              const std::function<void(int64_t, int64_t)>& work) {
  tensorflow::thread::ThreadPool* const pool =
      records < 2 || records * cycles < kLeastParallelCycles ? nullptr : helpers();
  if (pool == nullptr) return work(0, records);
  pool->ParallelFor(records, cycles, work);
}

}  // namespace tfquiver
