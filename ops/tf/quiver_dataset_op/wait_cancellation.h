#ifndef TFQUIVER_OPS_TF_QUIVER_DATASET_OP_WAIT_CANCELLATION_H_
#define TFQUIVER_OPS_TF_QUIVER_DATASET_OP_WAIT_CANCELLATION_H_

#include "ops/core/shuffle_pool_and_order/record_pool.h"
#include "tensorflow/core/framework/cancellation.h"

namespace tfquiver {

// Passes the cancellation of one GetNext call on to its draw, from the first wait to the end: draws
// that do not wait pay nothing, and a call that was cancelled leaves the iterator usable.
class WaitCancellation {
 public:
  WaitCancellation(tensorflow::CancellationManager* manager, RecordPool* pool)
      : manager_(manager), pool_(pool) {}
  ~WaitCancellation() {
    if (registered_) manager_->DeregisterCallback(token_);
  }
  void Register() {
    if (manager_ == nullptr) return;
    token_ = manager_->get_cancellation_token();
    registered_ = manager_->RegisterCallback(token_, [pool = pool_] { pool->CancelDraw(); });
    if (!registered_) pool_->CancelDraw();
  }

 private:
  tensorflow::CancellationManager* const manager_;
  RecordPool* const pool_;
  tensorflow::CancellationToken token_ = 0;
  bool registered_ = false;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_QUIVER_DATASET_OP_WAIT_CANCELLATION_H_
