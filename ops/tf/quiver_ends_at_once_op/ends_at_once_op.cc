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
    .SetDoNotOptimize()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc(R"doc(
The elements of input_dataset. Who drops its iterators does not wait for TensorFlow's tuning thread.

It fails as its input does.

output_types: of the elements.
output_shapes: of the elements.
)doc");

class EndsAtOnceDatasetOp : public tensorflow::data::UnaryDatasetOpKernel {
 public:
  using UnaryDatasetOpKernel::UnaryDatasetOpKernel;

 protected:
  void MakeDataset(tensorflow::OpKernelContext* ctx, tensorflow::data::DatasetBase* input,
                   tensorflow::data::DatasetBase** output) override {
    *output = new EndsAtOnceDataset(ctx, input);
  }
};

REGISTER_KERNEL_BUILDER(Name("QuiverEndsAtOnceDataset").Device(tensorflow::DEVICE_CPU),
                        EndsAtOnceDatasetOp);

}  // namespace
}  // namespace tfquiver
