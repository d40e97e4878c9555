#ifndef TFQUIVER_OPS_TF_QUIVER_ENDS_AT_ONCE_OP_TUNER_WAKING_H_
#define TFQUIVER_OPS_TF_QUIVER_ENDS_AT_ONCE_OP_TUNER_WAKING_H_

#include <memory>
#include <utility>

#include "tensorflow/core/framework/model.h"

namespace tfquiver {

// Wakes the thread that tunes the pipeline when its source goes, so that an iterator ends at once.
//
// That thread waits for its next turn, up to a minute. TensorFlow wakes it when the pipeline ends
// (CancellationManager::StartCancel), but sets the flag that it looks at only after: on a busy
// machine it looks too early, waits on, and whoever destroys the iterator waits for it. Either the
// pipeline's root destroys its source between the flag and that wait; or, as behind `batch`, the
// source has gone at the end of the data, and the turns begin anew then, 10 ms apart at first: the
// root waits about as long as that was ago.
class TunerWaking {
 public:
  TunerWaking() = default;
  TunerWaking(const TunerWaking&) = delete;
  TunerWaking& operator=(const TunerWaking&) = delete;
  ~TunerWaking();  // waits for nothing but the model's lock

  // `model` may be null: nothing is tuned.
  void WhenDestroyed(std::shared_ptr<tensorflow::data::model::Model> model) {
    model_ = std::move(model);
  }

 private:
  std::shared_ptr<tensorflow::data::model::Model> model_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_QUIVER_ENDS_AT_ONCE_OP_TUNER_WAKING_H_
