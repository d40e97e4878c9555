#ifndef TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_WHEREABOUTS_H_
#define TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_WHEREABOUTS_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/progress_and_checkpoints/checkpoint.h"
#include "ops/core/progress_and_checkpoints/trail.h"

namespace tfquiver {

// Where an iterator has been, for positions that are written down later than they were taken, maybe
// when the iterator is gone. A position that is written down fixes what comes next: what has come
// since. So a transformation that keeps the position before an element, and reads that element
// again after a restore, reads what it had read, although the order is random. Thread-safe, but for
// Follow and Leave.
class Whereabouts {
 public:
  // `start`: before the first draw. `then`: what is settled of the epochs after this one.
  // `marks_suffice`: they determine the order by themselves.
  Whereabouts(Checkpoint start, std::vector<Checkpoint> then, bool marks_suffice)
      : marks_suffice_(marks_suffice), last_(std::move(start)), then_(std::move(then)) {}

  const std::shared_ptr<Trail>& trail() const { return trail_; }
  // A reader begins, whose draws go into trail(). `where`: its Where, until Leave.
  void Follow(std::function<Checkpoint(const Trail::Mark*, std::vector<Step>*)> where);
  // It is about to be destroyed.
  void Leave();

  // The iterator has ended, and `next` begins where it came to.
  void FollowedBy(std::shared_ptr<const Whereabouts> next);

  // Where it was at `mark`, of trail(), and then the beginnings of the epochs that have followed.
  // `ended` is the caller's to set.
  std::vector<Checkpoint> At(const Trail::Mark& mark) const;

 private:
  const bool marks_suffice_;
  const std::shared_ptr<Trail> trail_ = std::make_shared<Trail>();
  mutable std::mutex mu_;
  std::function<Checkpoint(const Trail::Mark*, std::vector<Step>*)> where_;  // empty: no reader
  Checkpoint last_;  // where there is no reader
  std::vector<Checkpoint> then_;
  std::shared_ptr<const Whereabouts> next_;  // instead of then_
  Trail::Mark next_begin_;
};

// Who comes after whom among the iterators of one data set, which TensorFlow makes and destroys as
// it likes. `kin`: the same for iterators of which one may continue what another began. To take
// two for kin that are not is harmless: any order is an order of an epoch. Thread-safe.
class Lineage {
 public:
  // An iterator of this kin was restored, and the checkpoint says so much of those after it.
  void Expect(const std::string& kin, std::vector<Checkpoint> then);
  // An iterator is made: its beginning, and what is settled of those after it; empty: nothing is.
  std::vector<Checkpoint> Take(const std::string& kin);
  // It begins at its beginning.
  void Begins(const std::string& kin, const std::shared_ptr<Whereabouts>& whereabouts);
  void Ended(const std::string& kin, const std::shared_ptr<Whereabouts>& whereabouts);

 private:
  std::mutex mu_;
  std::map<std::string, std::vector<Checkpoint>> expected_;
  std::map<std::string, std::shared_ptr<Whereabouts>> ended_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_WHEREABOUTS_H_
