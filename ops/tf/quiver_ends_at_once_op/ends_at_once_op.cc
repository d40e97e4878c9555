#include <string>

#include "ops/tf/quiver_ends_at_once_op/ends_at_once_dataset.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfquiver {
namespace {

REGISTER_OP("QuiverEndsAtOnceDataset")
    .Input("input_dataset: variant")
    .Output("handle: variant")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .Attr("told_as: string = ''")
    .SetDoNotOptimize()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
The elements of input_dataset. Who drops its iterators does not wait for TensorFlow's tuning thread.

It fails as its input does.

output_types: of the elements.
output_shapes: of the elements.
told_as: by which name this process says for how long iterators wait for an element; empty: by none.
)doc");

class EndsAtOnceDatasetOp : public tensorflow::data::UnaryDatasetOpKernel {
 public:
  explicit EndsAtOnceDatasetOp(tensorflow::OpKernelConstruction* ctx)
      : tensorflow::data::UnaryDatasetOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr(EndsAtOnceDataset::kToldAs, &told_as_));
  }

 protected:
  void MakeDataset(tensorflow::OpKernelContext* ctx, tensorflow::data::DatasetBase* input,
                   tensorflow::data::DatasetBase** output) override {
    *output = new EndsAtOnceDataset(ctx, input, told_as_);
  }

 private:
  std::string told_as_;
};

REGISTER_KERNEL_BUILDER(Name("QuiverEndsAtOnceDataset").Device(tensorflow::DEVICE_CPU),
                        EndsAtOnceDatasetOp);

}  // namespace
}  // namespace tfquiver
