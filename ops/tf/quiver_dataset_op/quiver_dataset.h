#ifndef TFQUIVER_OPS_TF_QUIVER_DATASET_OP_QUIVER_DATASET_H_
#define TFQUIVER_OPS_TF_QUIVER_DATASET_OP_QUIVER_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/progress_and_checkpoints/epochs.h"
#include "ops/core/progress_and_checkpoints/whereabouts.h"
#include "ops/core/told_by_python/options.h"
#include "ops/tf/parsing/parsing.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"

namespace tfquiver {

// The op's inputs.
struct Source {
  std::string digest_id;
  std::string session_key;
  std::string options_json;
  int64_t num_records = 0;
  Options options;
  std::shared_ptr<const Parsing> parsing;  // null: elements are records
};

// The records of a data set, as a tf.data source. Immutable; its iterators are readers
// (quiver_iterator.cc).
class QuiverDataset : public tensorflow::data::DatasetBase {
 public:
  QuiverDataset(tensorflow::OpKernelContext* ctx, Source source);

  std::unique_ptr<tensorflow::data::IteratorBase> MakeIteratorInternal(
      const std::string& prefix) const override;
  const tensorflow::DataTypeVector& output_dtypes() const override { return dtypes_; }
  const std::vector<tensorflow::PartialTensorShape>& output_shapes() const override {
    return shapes_;
  }
  std::string DebugString() const override { return "QuiverDatasetOp::Dataset"; }
  int64_t CardinalityInternal(tensorflow::data::CardinalityOptions options) const override;
  int64_t OnceEach() const;  // elements, if each record came once
  int64_t AllocatedBytes() const override;
  absl::Status InputDatasets(std::vector<const DatasetBase*>* inputs) const override;
  absl::Status CheckExternalState() const override { return absl::OkStatus(); }
  absl::Status MakeSplitProviders(std::vector<std::unique_ptr<tensorflow::data::SplitProvider>>*
                                      split_providers) const override;

  const Source& source() const { return source_; }
  const std::shared_ptr<Epochs>& epochs() const { return epochs_; }
  Lineage& lineage() const { return *lineage_; }

 protected:
  absl::Status AsGraphDefInternal(tensorflow::data::SerializationContext* ctx,
                                  DatasetGraphDefBuilder* b,
                                  tensorflow::Node** output) const override;

 private:
  const Source source_;
  const std::shared_ptr<Epochs> epochs_ = std::make_shared<Epochs>();
  const std::unique_ptr<Lineage> lineage_ = std::make_unique<Lineage>();
  const tensorflow::DataTypeVector dtypes_;
  const std::vector<tensorflow::PartialTensorShape> shapes_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_QUIVER_DATASET_OP_QUIVER_DATASET_H_
