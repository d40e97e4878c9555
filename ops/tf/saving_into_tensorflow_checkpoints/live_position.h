#ifndef TFQUIVER_OPS_TF_SAVING_INTO_TENSORFLOW_CHECKPOINTS_LIVE_POSITION_H_
#define TFQUIVER_OPS_TF_SAVING_INTO_TENSORFLOW_CHECKPOINTS_LIVE_POSITION_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/progress_and_checkpoints/whereabouts.h"
#include "tensorflow/core/framework/variant_tensor_data.h"

namespace tfquiver {

// A position of an iterator, as the element of a variant tensor: what a symbolic checkpoint holds
// for each element that is under way. It becomes text, a checkpoint, when it is serialised: that
// is seldom, while positions are taken with every element.
class LivePosition {
 public:
  LivePosition() = default;
  LivePosition(std::shared_ptr<const Whereabouts> whereabouts, Trail::Mark mark, bool ended)
      : whereabouts_(std::move(whereabouts)), mark_(std::move(mark)), ended_(ended) {}

  // Checkpoints: of the iterator, and of those that come after it.
  std::vector<std::string> Texts() const;

  // What TensorFlow asks of the elements of variant tensors.
  static constexpr char kTypeName[] = "tfquiver::Position";
  std::string TypeName() const { return kTypeName; }
  std::string DebugString() const { return kTypeName; }
  void Encode(tensorflow::VariantTensorData* data) const;
  bool Decode(tensorflow::VariantTensorData data);

 private:
  std::shared_ptr<const Whereabouts> whereabouts_;  // none: texts_ were read
  Trail::Mark mark_;
  bool ended_ = false;
  std::vector<std::string> texts_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_SAVING_INTO_TENSORFLOW_CHECKPOINTS_LIVE_POSITION_H_
