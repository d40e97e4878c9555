#include <string>
#include <utility>

#include "ops/core/node_messages_socket_tickets/frame.h"
#include "ops/core/told_by_python/options.h"
#include "ops/tf/parsing/feature_spec.h"
#include "ops/tf/parsing/fixed_fields.h"
#include "ops/tf/quiver_dataset_op/quiver_dataset.h"
#include "ops/tf/status_conversion.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfquiver {
namespace {

using tensorflow::tstring;
using tensorflow::data::DatasetBase;

// A job that nobody has named is called after its key, not in its options: they are hashed.
constexpr char kUnnamedJob[] = "job-";
constexpr size_t kUnnamedJobDigits = 12;

class QuiverDatasetOp : public tensorflow::data::DatasetOpKernel {
 public:
  explicit QuiverDatasetOp(tensorflow::OpKernelConstruction* ctx) : DatasetOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, features_.Read(ctx));
    OP_REQUIRES_OK(ctx, fields_.Read(ctx));
  }

 protected:
  void MakeDataset(tensorflow::OpKernelContext* ctx, DatasetBase** output) override {
    using tensorflow::data::ParseScalarArgument;
    tstring digest_id;
    tstring session_key;
    tstring options;
    Source source;
    OP_REQUIRES_OK(ctx, ParseScalarArgument<tstring>(ctx, "digest_id", &digest_id));
    OP_REQUIRES_OK(ctx, ParseScalarArgument<tstring>(ctx, "session_key", &session_key));
    OP_REQUIRES_OK(ctx, ParseScalarArgument<tstring>(ctx, "options", &options));
    OP_REQUIRES_OK(ctx, ParseScalarArgument<int64_t>(ctx, "num_records", &source.num_records));
    source.digest_id = digest_id;
    source.session_key = session_key;
    source.options_json = options;
    OP_REQUIRES_OK(ctx, ToAbsl(ParseOptions(source.options_json, &source.options)));
    OP_REQUIRES(ctx, source.digest_id.size() == kIdBytes,
                absl::InvalidArgumentError("tfquiver: digest_id must be 32 bytes"));
    OP_REQUIRES(ctx,
                source.session_key.size() <= kMaxStringBytes &&
                    source.options.job.size() <= kMaxStringBytes,
                absl::InvalidArgumentError("tfquiver: session_key or job is too long"));
    OP_REQUIRES(ctx, source.num_records >= 0,
                absl::InvalidArgumentError("tfquiver: num_records must not be negative"));
    if (source.options.job.empty() && !source.session_key.empty()) {
      source.options.job = kUnnamedJob + source.session_key.substr(0, kUnnamedJobDigits);
    }
    OP_REQUIRES_OK(ctx, MakeParsing(ctx, &source));
    *output = new QuiverDataset(ctx, std::move(source));
  }

 private:
  absl::Status MakeParsing(tensorflow::OpKernelContext* ctx, Source* source) const {
    if (features_.none() && fields_.none()) return absl::OkStatus();
    if (!features_.none() && !fields_.none()) {
      return absl::InvalidArgumentError(
          "tfquiver: records are either examples with features, or fields of fixed length");
    }
    if (source->options.batch_size == 0) {
      return absl::InvalidArgumentError("tfquiver: records are parsed in batches: batch_size");
    }
    if (features_.none()) {
      source->options.keeps_tags = true;
      return FixedFields::Make(fields_, source->digest_id,
                               source->options.sampling.empty() ? "shard" : "draw",
                               &source->parsing);
    }
    tensorflow::OpInputList defaults;
    TF_RETURN_IF_ERROR(ctx->input_list("parse_defaults", &defaults));
    return FeatureSpec::Make(features_, {defaults.begin(), defaults.end()}, &source->parsing);
  }

  FeatureAttributes features_;
  FieldAttributes fields_;
};

REGISTER_KERNEL_BUILDER(Name("QuiverDataset").Device(tensorflow::DEVICE_CPU), QuiverDatasetOp);

}  // namespace
}  // namespace tfquiver
