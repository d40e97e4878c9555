#ifndef TFQUIVER_OPS_TF_EXACTLY_ONCE_FEED_H_
#define TFQUIVER_OPS_TF_EXACTLY_ONCE_FEED_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/env.h"

namespace tfquiver {

// The elements of one iteration of a data set, made, read and destroyed by a thread that nobody
// depends on. With tf.data service each of the three may wait for a server that is not there, in
// places that no cancellation reaches (a client asks its dispatcher for a job until the end of
// time). Whoever takes elements can always stop waiting, and go.
class Feed {
 public:
  // The thread begins at once. `input` is referred to for as long as that needs it.
  Feed(tensorflow::data::IteratorContext* ctx, const tensorflow::data::DatasetBase* input,
       std::string prefix);
  // Cancels what the thread does, and gives it a moment. A thread that waits in TensorFlow even
  // then is left to itself: it destroys its iterator as soon as it can, and is joined by a later
  // Feed.
  ~Feed();

  enum class Outcome { kElement, kEnd, kFailed, kNothing, kCancelled };
  // The next element. kFailed: *status says how, and will be said again. kNothing: none has come in
  // `patience` (0: for ever). kCancelled: `cancellation` (may be null) was. One caller at a time.
  Outcome Take(std::chrono::milliseconds patience, tensorflow::CancellationManager* cancellation,
               std::vector<tensorflow::Tensor>* element, absl::Status* status);

 private:
  struct Shared;
  static void Run(const std::shared_ptr<Shared>& shared);

  const std::shared_ptr<Shared> shared_;
  std::unique_ptr<tensorflow::Thread> thread_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_EXACTLY_ONCE_FEED_H_
