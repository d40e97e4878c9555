#include "ops/tf/dataset/quiver_dataset.h"

#include <utility>

#include "ops/core/reader/reader.h"
#include "ops/tf/tickets/ticket_provider.h"
#include "tensorflow/core/framework/tensor.h"

namespace tfquiver {
namespace {

using tensorflow::PartialTensorShape;
using tensorflow::tstring;
using tensorflow::data::DatasetBase;
using tensorflow::data::DatasetContext;
using tensorflow::data::SplitProvider;

PartialTensorShape Shape(const Options& options) {
  if (options.batch_size == 0) return PartialTensorShape({});
  return PartialTensorShape({options.drop_remainder ? options.batch_size : -1});
}

tensorflow::DataTypeVector Types(const Options& options) {
  if (options.with_position) return {tensorflow::DT_INT64, tensorflow::DT_STRING};
  if (!options.tagged) return {tensorflow::DT_STRING};
  return {tensorflow::DT_STRING, tensorflow::DT_INT64, tensorflow::DT_STRING};
}

std::vector<PartialTensorShape> Shapes(const Options& options) {
  if (options.with_position) return {Shape(options), Shape(options)};
  if (!options.tagged) return {Shape(options)};
  return {Shape(options), Shape(options), PartialTensorShape({})};
}

}  // namespace

QuiverDataset::QuiverDataset(tensorflow::OpKernelContext* ctx, Source source)
    : DatasetBase(DatasetContext(ctx)),
      source_(std::move(source)),
      dtypes_(Types(source_.options)),
      shapes_(Shapes(source_.options)) {}

int64_t QuiverDataset::CardinalityInternal(tensorflow::data::CardinalityOptions) const {
  return source_.options.sampling.empty() ? OnceEach() : tensorflow::data::kUnknownCardinality;
}

int64_t QuiverDataset::OnceEach() const {
  const int64_t batch = source_.options.batch_size;
  if (batch == 0) return source_.num_records;
  return source_.num_records / batch +
         (!source_.options.drop_remainder && source_.num_records % batch != 0 ? 1 : 0);
}

int64_t QuiverDataset::AllocatedBytes() const {
  return static_cast<int64_t>(sizeof(*this) + source_.options_json.capacity());
}

absl::Status QuiverDataset::InputDatasets(std::vector<const DatasetBase*>* inputs) const {
  inputs->clear();
  return absl::OkStatus();
}

absl::Status QuiverDataset::MakeSplitProviders(
    std::vector<std::unique_ptr<SplitProvider>>* split_providers) const {
  if (source_.options.files) {
    return absl::InvalidArgumentError(
        "tfquiver: order=\"files\" is the order of one reader: workers of tf.data service would "
        "mix theirs. Leave distribute() away, and read in the trainer");
  }
  if (source_.options.joins) {
    return absl::InvalidArgumentError(
        "tfquiver: stream= is for those who read in their own process: leave distribute() away, or "
        "stream=");
  }
  split_providers->push_back(std::make_unique<TicketProvider>(
      source_.options.endpoint, source_.session_key, source_.digest_id, source_.options.job,
      WishOf(source_.options), OnceEach()));
  return absl::OkStatus();
}

absl::Status QuiverDataset::AsGraphDefInternal(tensorflow::data::SerializationContext* ctx,
                                               DatasetGraphDefBuilder* b,
                                               tensorflow::Node** output) const {
  tensorflow::Node* digest_id = nullptr;
  tensorflow::Node* session_key = nullptr;
  tensorflow::Node* options = nullptr;
  tensorflow::Node* num_records = nullptr;
  // A graph that is neither sent anywhere nor run is hashed (snapshot, fingerprint): data sets that
  // were made alike are then one, and the key, which is drawn at random, is left out.
  const bool hashed = ctx->input_list() != nullptr && !ctx->is_graph_rewrite();
  TF_RETURN_IF_ERROR(b->AddScalar(tstring(source_.digest_id), &digest_id));
  TF_RETURN_IF_ERROR(b->AddScalar(tstring(hashed ? "" : source_.session_key), &session_key));
  TF_RETURN_IF_ERROR(b->AddScalar(tstring(source_.options_json), &options));
  TF_RETURN_IF_ERROR(b->AddScalar(source_.num_records, &num_records));
  return b->AddDataset(this, {digest_id, session_key, options, num_records}, {}, output);
}

}  // namespace tfquiver
