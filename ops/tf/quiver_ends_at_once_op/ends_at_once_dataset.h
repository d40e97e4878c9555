#ifndef TFQUIVER_OPS_TF_QUIVER_ENDS_AT_ONCE_OP_ENDS_AT_ONCE_DATASET_H_
#define TFQUIVER_OPS_TF_QUIVER_ENDS_AT_ONCE_OP_ENDS_AT_ONCE_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensorflow/core/framework/dataset.h"

namespace tfquiver {

// The elements of another data set, whose iterators TensorFlow's tuning thread does not hold up
// when they go (ops/tf/quiver_ends_at_once_op/tuner_waking.h), and tell for how long they have
// waited for one (ops/core/told_by_python/waits.h) as `told_as`. Immutable; owns a reference to the
// other.
class EndsAtOnceDataset : public tensorflow::data::DatasetBase {
 public:
  static constexpr char kToldAs[] = "told_as";  // the op's attribute

  EndsAtOnceDataset(tensorflow::OpKernelContext* ctx, const DatasetBase* input,
                    std::string told_as);
  ~EndsAtOnceDataset() override;

  std::unique_ptr<tensorflow::data::IteratorBase> MakeIteratorInternal(
      const std::string& prefix) const override;
  const tensorflow::DataTypeVector& output_dtypes() const override {
    return input_->output_dtypes();
  }
  const std::vector<tensorflow::PartialTensorShape>& output_shapes() const override {
    return input_->output_shapes();
  }
  std::string DebugString() const override { return "EndsAtOnceDatasetOp::Dataset"; }
  int64_t CardinalityInternal(tensorflow::data::CardinalityOptions options) const override {
    return input_->Cardinality(options);
  }
  absl::Status InputDatasets(std::vector<const DatasetBase*>* inputs) const override;
  absl::Status CheckExternalState() const override { return input_->CheckExternalState(); }

  const DatasetBase& input() const { return *input_; }
  const std::string& told_as() const { return told_as_; }

 protected:
  absl::Status AsGraphDefInternal(tensorflow::data::SerializationContext* ctx,
                                  DatasetGraphDefBuilder* b,
                                  tensorflow::Node** output) const override;

 private:
  const DatasetBase* const input_;
  const std::string told_as_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_QUIVER_ENDS_AT_ONCE_OP_ENDS_AT_ONCE_DATASET_H_
