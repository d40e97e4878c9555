#ifndef TFQUIVER_OPS_TF_SAVING_INTO_TENSORFLOW_CHECKPOINTS_ITERATOR_POSITION_H_
#define TFQUIVER_OPS_TF_SAVING_INTO_TENSORFLOW_CHECKPOINTS_ITERATOR_POSITION_H_

#include <memory>
#include <string>
#include <vector>

#include "ops/core/progress_and_checkpoints/checkpoint.h"
#include "ops/core/progress_and_checkpoints/trail.h"
#include "ops/core/progress_and_checkpoints/whereabouts.h"
#include "ops/core/reader_and_its_conversation_with_the_node/reader.h"
#include "ops/tf/quiver_dataset_op/quiver_dataset.h"
#include "tensorflow/core/framework/dataset.h"

namespace tfquiver {

// Where an iterator of a QuiverDataset begins, and what its checkpoints say: plain ones, and the
// positions of symbolic ones, taken with every element. Its owner sees to it that one thread at a
// time calls.
class IteratorPosition {
 public:
  // `prefix`: of the iterator. The data set outlives this.
  IteratorPosition(const QuiverDataset* dataset, std::string prefix);

  // The iterator is one of several readers of a session: neither the order nor who comes after it
  // is its own.
  void Share() { shared_ = true; }
  // The iterator is alone: it begins where one that was restored says that it does.
  void Inherit();
  // It begins there.
  void StartAt(Checkpoint start) { start_ = std::move(start); }
  // It is about to begin: settles the epoch, and asks the reader for what positions need.
  void Begin(ReaderParts* parts);
  const Checkpoint& start() const { return start_; }
  void Follow(const Reader* reader);
  // The reader is about to be destroyed.
  void Leave();
  // A whole element has been emitted.
  void ElementEnded();
  // All have.
  void EpochEnded();

  // `reader`: null before it has begun.
  absl::Status Save(const Reader* reader, bool ended, bool symbolic,
                    tensorflow::data::IteratorStateWriter* writer);
  // kInvalidArgument when what was saved is not of this data set. Before Begin.
  absl::Status Restore(tensorflow::data::IteratorStateReader* reader);

 private:
  bool CountsEpochs() const;
  int64_t ToldEpoch(bool taken) const;
  std::string Kin() const;
  Checkpoint Beginning() const;
  absl::Status SavePosition(const Reader* reader, bool ended,
                            tensorflow::data::IteratorStateWriter* writer);
  absl::Status ReadStates(tensorflow::data::IteratorStateReader* reader,
                          std::vector<std::string>* states) const;

  const QuiverDataset* const dataset_;
  const std::string prefix_;
  bool shared_ = false;
  bool restored_ = false;
  Checkpoint start_;
  std::vector<Checkpoint> then_;              // of those after it, as far as settled
  std::shared_ptr<Whereabouts> whereabouts_;  // symbolic checkpoints: what positions refer to
  Trail::Mark boundary_;                      // after the last whole element
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_SAVING_INTO_TENSORFLOW_CHECKPOINTS_ITERATOR_POSITION_H_
