#ifndef TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_EPOCHS_H_
#define TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_EPOCHS_H_

#include <cstdint>
#include <mutex>

namespace tfquiver {

// Which epoch comes next in one pipeline, whose iterators (of a `repeat`) know nothing of each
// other. The coordinator counts the epochs of a job; but a pipeline that was restored goes on from
// the epoch of its checkpoint, whatever the job has read since. Thread-safe.
class Epochs {
 public:
  // An iterator reads this epoch.
  void Opened(int64_t epoch) {
    std::lock_guard<std::mutex> lock(mu_);
    last_ = epoch;
  }
  // An iterator goes on with this epoch, from a checkpoint.
  void Restored(int64_t epoch) {
    std::lock_guard<std::mutex> lock(mu_);
    last_ = epoch;
    restored_ = true;
  }
  // The epoch of an iterator that begins; -1: as the coordinator counts.
  int64_t Next() const {
    std::lock_guard<std::mutex> lock(mu_);
    return restored_ ? last_ + 1 : -1;
  }
  // What the checkpoint says of an iterator that has not begun; -1: nothing is known.
  int64_t NextAsFarAsKnown() const {
    std::lock_guard<std::mutex> lock(mu_);
    return last_ >= 0 ? last_ + 1 : -1;
  }

 private:
  mutable std::mutex mu_;
  int64_t last_ = -1;
  bool restored_ = false;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_EPOCHS_H_
