#include "ops/tf/exactly_once/quiver_once_dataset.h"

#include <utility>

#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/graph/graph.h"

namespace tfquiver {
namespace {

namespace data = tensorflow::data;
using tensorflow::PartialTensorShape;
using tensorflow::tstring;

}  // namespace

QuiverOnceDataset::QuiverOnceDataset(tensorflow::OpKernelContext* ctx,
                                     const data::DatasetBase* input,
                                     const data::DatasetBase* mop_up, Delivery delivery,
                                     tensorflow::DataTypeVector dtypes,
                                     std::vector<PartialTensorShape> shapes)
    : data::DatasetBase(data::DatasetContext(ctx)),
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

absl::Status QuiverOnceDataset::InputDatasets(std::vector<const data::DatasetBase*>* inputs) const {
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
