#include "ops/tf/once/quiver_once_dataset.h"

#include <utility>

#include "ops/core/format/record_tag.h"
#include "ops/core/wire/frame.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/graph.h"

namespace tfquiver {
namespace {

using tensorflow::PartialTensorShape;
using tensorflow::tstring;
using tensorflow::data::DatasetBase;
using tensorflow::data::DatasetContext;

class QuiverOnceDatasetOp : public tensorflow::data::DatasetOpKernel {
 public:
  explicit QuiverOnceDatasetOp(tensorflow::OpKernelConstruction* ctx) : DatasetOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_types", &dtypes_));
    OP_REQUIRES_OK(ctx, ctx->GetAttr("output_shapes", &shapes_));
  }

 protected:
  void MakeDataset(tensorflow::OpKernelContext* ctx, DatasetBase** output) override {
    using tensorflow::data::ParseScalarArgument;
    DatasetBase* input = nullptr;
    DatasetBase* mop_up = nullptr;
    OP_REQUIRES_OK(ctx, GetDatasetFromVariantTensor(ctx->input(0), &input));
    OP_REQUIRES_OK(ctx, GetDatasetFromVariantTensor(ctx->input(1), &mop_up));
    Delivery delivery;
    tstring digest_id;
    tstring endpoint;
    OP_REQUIRES_OK(ctx, ParseScalarArgument<tstring>(ctx, "digest_id", &digest_id));
    OP_REQUIRES_OK(ctx, ParseScalarArgument<int64_t>(ctx, "num_records", &delivery.num_records));
    OP_REQUIRES_OK(ctx, ParseScalarArgument<int64_t>(ctx, "num_shards", &delivery.num_shards));
    OP_REQUIRES_OK(ctx, ParseScalarArgument<tstring>(ctx, "endpoint", &endpoint));
    OP_REQUIRES_OK(ctx, ParseScalarArgument<int64_t>(ctx, "hold_back", &delivery.hold_back));
    OP_REQUIRES_OK(ctx, ParseScalarArgument<int64_t>(ctx, "takeover_ms", &delivery.takeover_ms));
    delivery.digest_id = digest_id;
    delivery.endpoint = endpoint;
    OP_REQUIRES(ctx, delivery.digest_id.size() == kIdBytes,
                absl::InvalidArgumentError("tfquiver: digest_id must be 32 bytes"));
    OP_REQUIRES(ctx,
                delivery.num_records >= 0 && delivery.hold_back >= 0 && delivery.takeover_ms >= 0,
                absl::InvalidArgumentError(
                    "tfquiver: num_records, hold_back and takeover_ms must not be negative"));
    OP_REQUIRES(
        ctx,
        delivery.num_shards >= 0 && static_cast<uint64_t>(delivery.num_shards) <= kMostTagShards,
        absl::InvalidArgumentError("tfquiver: num_shards is out of range"));
    for (const DatasetBase* dataset : {input, mop_up}) {
      OP_REQUIRES(ctx, HasTags(dataset->output_dtypes()),
                  absl::InvalidArgumentError(
                      "tfquiver: the elements of both data sets must be those of the output, then "
                      "int64 tags and string sessions"));
    }
    *output = new QuiverOnceDataset(ctx, input, mop_up, std::move(delivery), dtypes_, shapes_);
  }

 private:
  bool HasTags(tensorflow::DataTypeVector dtypes) const {
    tensorflow::DataTypeVector wanted = dtypes_;
    wanted.push_back(tensorflow::DT_INT64);
    wanted.push_back(tensorflow::DT_STRING);
    return dtypes == wanted;
  }

  tensorflow::DataTypeVector dtypes_;
  std::vector<PartialTensorShape> shapes_;
};

REGISTER_KERNEL_BUILDER(Name("QuiverOnceDataset").Device(tensorflow::DEVICE_CPU),
                        QuiverOnceDatasetOp);

}  // namespace

QuiverOnceDataset::QuiverOnceDataset(tensorflow::OpKernelContext* ctx, const DatasetBase* input,
                                     const DatasetBase* mop_up, Delivery delivery,
                                     tensorflow::DataTypeVector dtypes,
                                     std::vector<PartialTensorShape> shapes)
    : DatasetBase(DatasetContext(ctx)),
      input_(input),
      mop_up_(mop_up),
      delivery_(std::move(delivery)),
      dtypes_(std::move(dtypes)),
      shapes_(std::move(shapes)) {
  input_->Ref();
  mop_up_->Ref();
}

QuiverOnceDataset::~QuiverOnceDataset() {
  input_->Unref();
  mop_up_->Unref();
}

absl::Status QuiverOnceDataset::InputDatasets(std::vector<const DatasetBase*>* inputs) const {
  inputs->assign({input_, mop_up_});
  return absl::OkStatus();
}

// To be rewritten a pipeline is run again, and tf.data service's source waits for its dispatcher
// when it is run. So this goes into the new pipeline as it is; what stands before it was optimized
// for the workers.
absl::Status QuiverOnceDataset::AddItself(tensorflow::data::SerializationContext* ctx,
                                          DatasetGraphDefBuilder* b,
                                          tensorflow::Node** output) const {
  tensorflow::Tensor itself(tensorflow::DT_VARIANT, tensorflow::TensorShape({}));
  Ref();  // which the tensor takes over
  TF_RETURN_IF_ERROR(
      tensorflow::data::StoreDatasetInVariantTensor(const_cast<QuiverOnceDataset*>(this), &itself));
  TF_RETURN_IF_ERROR(b->AddPlaceholder(itself, output));
  ctx->input_list()->emplace_back((*output)->name(), std::move(itself));
  return absl::OkStatus();
}

absl::Status QuiverOnceDataset::AsGraphDefInternal(tensorflow::data::SerializationContext* ctx,
                                                   DatasetGraphDefBuilder* b,
                                                   tensorflow::Node** output) const {
  if (ctx->is_graph_rewrite()) return AddItself(ctx, b, output);
  std::vector<tensorflow::Node*> inputs(8);
  TF_RETURN_IF_ERROR(b->AddInputDataset(ctx, input_, &inputs[0]));
  TF_RETURN_IF_ERROR(b->AddInputDataset(ctx, mop_up_, &inputs[1]));
  TF_RETURN_IF_ERROR(b->AddScalar(tstring(delivery_.digest_id), &inputs[2]));
  TF_RETURN_IF_ERROR(b->AddScalar(delivery_.num_records, &inputs[3]));
  TF_RETURN_IF_ERROR(b->AddScalar(delivery_.num_shards, &inputs[4]));
  TF_RETURN_IF_ERROR(b->AddScalar(tstring(delivery_.endpoint), &inputs[5]));
  TF_RETURN_IF_ERROR(b->AddScalar(delivery_.hold_back, &inputs[6]));
  TF_RETURN_IF_ERROR(b->AddScalar(delivery_.takeover_ms, &inputs[7]));
  return b->AddDataset(this, inputs, output);
}

}  // namespace tfquiver
