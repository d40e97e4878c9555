#include "ops/tf/quiver_dataset_op/quiver_dataset.h"

#include <utility>

#include "ops/core/reader_and_its_conversation_with_the_node/reader.h"
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

tensorflow::DataTypeVector Types(const Source& source) {
  tensorflow::DataTypeVector types{tensorflow::DT_STRING};
  if (source.parsing != nullptr) types = source.parsing->Types();
  if (source.options.with_position) types.insert(types.begin(), tensorflow::DT_INT64);
  if (source.options.tagged) {
    types.insert(types.end(), {tensorflow::DT_INT64, tensorflow::DT_STRING});
  }
  return types;
}

std::vector<PartialTensorShape> Shapes(const Source& source) {
  const PartialTensorShape shape = Shape(source.options);
  std::vector<PartialTensorShape> shapes{shape};
  if (source.parsing != nullptr) shapes = source.parsing->Shapes(shape.dim_size(0));
  if (source.options.with_position) shapes.insert(shapes.begin(), shape);
  if (source.options.tagged) shapes.insert(shapes.end(), {shape, PartialTensorShape({})});
  return shapes;
}

}  // namespace

QuiverDataset::QuiverDataset(tensorflow::OpKernelContext* ctx, Source source)
    : DatasetBase(DatasetContext(ctx)),
      source_(std::move(source)),
      dtypes_(Types(source_)),
      shapes_(Shapes(source_)) {}

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
  std::vector<tensorflow::Node*> defaults;
  std::vector<std::pair<absl::string_view, tensorflow::AttrValue>> attributes;
  if (source_.parsing != nullptr) {
    attributes = source_.parsing->Attributes();
    for (const tensorflow::Tensor& value : source_.parsing->defaults()) {
      TF_RETURN_IF_ERROR(b->AddTensor(value, &defaults.emplace_back()));
    }
  }
  return b->AddDataset(this, {{0, digest_id}, {1, session_key}, {2, options}, {3, num_records}},
                       {{4, defaults}}, attributes, output);
}

}  // namespace tfquiver
