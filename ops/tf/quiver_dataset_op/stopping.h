#ifndef TFQUIVER_OPS_TF_QUIVER_DATASET_OP_STOPPING_H_
#define TFQUIVER_OPS_TF_QUIVER_DATASET_OP_STOPPING_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include "ops/core/reader_and_its_conversation_with_the_node/reader.h"
#include "ops/core/told_by_python/process.h"

namespace tfquiver {

// Ends what an iterator waits for, now and for ever, when its process is told to stop: the draws of
// its reader, and its pauses. Thread-safe; its lock is never held while waiting.
class Stopping {
 public:
  Stopping() : on_stop_([this] { Stop("tfquiver was stopped in this process"); }) {}

  // The iterator's reader, once it is there; null before it is destroyed.
  void Watch(Reader* reader) {
    std::lock_guard<std::mutex> lock(mu_);
    reader_ = reader;
    if (reader_ != nullptr && !why_.empty()) reader_->pool().Cancel(why_);
  }

  // False when it was stopped.
  bool Pause(std::chrono::milliseconds pause) {
    std::unique_lock<std::mutex> lock(mu_);
    return !stopped_.wait_for(lock, pause, [this] { return !why_.empty(); });
  }

 private:
  void Stop(const std::string& why) {
    std::lock_guard<std::mutex> lock(mu_);
    why_ = why;
    stopped_.notify_all();
    if (reader_ != nullptr) reader_->pool().Cancel(why);
  }

  std::mutex mu_;
  std::condition_variable stopped_;
  std::string why_;
  Reader* reader_ = nullptr;
  Process::OnStop on_stop_;  // destroyed first: no call after that
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_QUIVER_DATASET_OP_STOPPING_H_
