#ifndef TFQUIVER_OPS_TF_EXACTLY_ONCE_QUIVER_ONCE_DATASET_H_
#define TFQUIVER_OPS_TF_EXACTLY_ONCE_QUIVER_ONCE_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"

namespace tfquiver {

// The op's inputs but the data sets.
struct Delivery {
  std::string digest_id;
  int64_t num_records = 0;
  int64_t num_shards = 0;
  std::string endpoint;
  int64_t hold_back = 0;
  int64_t takeover_ms = 0;
};

// What comes of two data sets of tagged records, each record once (quiver_once_iterator.cc).
// Immutable; owns references to both.
class QuiverOnceDataset : public tensorflow::data::DatasetBase {
 public:
  QuiverOnceDataset(tensorflow::OpKernelContext* ctx, const DatasetBase* input,
                    const DatasetBase* mop_up, Delivery delivery, tensorflow::DataTypeVector dtypes,
                    std::vector<tensorflow::PartialTensorShape> shapes);
  ~QuiverOnceDataset() override;

  std::unique_ptr<tensorflow::data::IteratorBase> MakeIteratorInternal(
      const std::string& prefix) const override;
  const tensorflow::DataTypeVector& output_dtypes() const override { return dtypes_; }
  const std::vector<tensorflow::PartialTensorShape>& output_shapes() const override {
    return shapes_;
  }
  std::string DebugString() const override { return "QuiverOnceDatasetOp::Dataset"; }
  absl::Status InputDatasets(std::vector<const DatasetBase*>* inputs) const override;
  // What it needs to go on is its own: that the service behind it keeps state is no obstacle.
  absl::Status CheckExternalState() const override { return absl::OkStatus(); }

  const DatasetBase& input() const { return *input_; }
  const DatasetBase& mop_up() const { return *mop_up_; }
  const Delivery& delivery() const { return delivery_; }

 protected:
  absl::Status AsGraphDefInternal(tensorflow::data::SerializationContext* ctx,
                                  DatasetGraphDefBuilder* b,
                                  tensorflow::Node** output) const override;

 private:
  absl::Status AddItself(tensorflow::data::SerializationContext* ctx, DatasetGraphDefBuilder* b,
                         tensorflow::Node** output) const;

  const DatasetBase* const input_;
  const DatasetBase* const mop_up_;
  const Delivery delivery_;
  const tensorflow::DataTypeVector dtypes_;
  const std::vector<tensorflow::PartialTensorShape> shapes_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_EXACTLY_ONCE_QUIVER_ONCE_DATASET_H_
