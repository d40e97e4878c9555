#include <utility>
#include <vector>

#include "ops/core/bytes_checksums_tfrecords/bytes.h"
#include "ops/core/record_tag.h"
#include "ops/tf/exactly_once/quiver_once_dataset.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfquiver {
namespace {

using tensorflow::PartialTensorShape;
using tensorflow::tstring;
using tensorflow::data::DatasetBase;

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
}  // namespace tfquiver
