#ifndef TFQUIVER_OPS_CORE_WHEREABOUTS_H_
#define TFQUIVER_OPS_CORE_WHEREABOUTS_H_

#include <memory>
#include <mutex>

#include "ops/core/checkpoint.h"
#include "ops/core/reader.h"
#include "ops/core/trail.h"

namespace tfquiver {

// Where an iterator has been, for positions that are written down later than they were taken, maybe
// when the iterator is gone. A position that is written down fixes what comes next: what has come
// since. So a transformation that keeps the position before an element, and reads that element
// again after a restore, reads what it had read, although the order is random. Thread-safe, but for
// Follow and Leave.
class Whereabouts {
 public:
  // `start`: before the first draw. `marks_suffice`: they determine the order by themselves.
  Whereabouts(Checkpoint start, bool marks_suffice)
      : marks_suffice_(marks_suffice), last_(std::move(start)) {}

  const std::shared_ptr<Trail>& trail() const { return trail_; }
  // The reader begins, whose draws go into trail().
  void Follow(const Reader* reader);
  // It is about to be destroyed.
  void Leave();

  // `mark`: of trail(). `ended` is the caller's to set.
  Checkpoint At(const Trail::Mark& mark) const;

 private:
  const bool marks_suffice_;
  const std::shared_ptr<Trail> trail_ = std::make_shared<Trail>();
  mutable std::mutex mu_;
  const Reader* reader_ = nullptr;
  Checkpoint last_;  // where there is no reader
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_WHEREABOUTS_H_
