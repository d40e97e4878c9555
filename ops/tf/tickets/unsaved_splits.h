#ifndef TFQUIVER_OPS_TF_TICKETS_UNSAVED_SPLITS_H_
#define TFQUIVER_OPS_TF_TICKETS_UNSAVED_SPLITS_H_

#include <functional>
#include <string>
#include <utility>

#include "tensorflow/core/framework/dataset.h"

namespace tfquiver {

// A split provider whose state is not TensorFlow's to keep.
class UnsavedSplits : public tensorflow::data::SplitProvider {
 public:
  // `why`: completes the error of who tries.
  explicit UnsavedSplits(std::string why) : why_(std::move(why)) {}

  absl::Status Save(std::function<std::string(std::string)>,
                    tensorflow::data::IteratorStateWriter*) override {
    return absl::UnimplementedError("tfquiver: " + why_);
  }
  absl::Status Restore(std::function<std::string(std::string)>,
                       tensorflow::data::IteratorStateReader*) override {
    return absl::UnimplementedError("tfquiver: " + why_);
  }

 private:
  const std::string why_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_TICKETS_UNSAVED_SPLITS_H_
