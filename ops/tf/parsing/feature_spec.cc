#include "ops/tf/parsing/feature_spec.h"

#include "ops/tf/parsing/example_batches.h"
#include "tensorflow/core/util/example_proto_helper.h"

namespace tfquiver {
namespace {

using tensorflow::DataType;
using tensorflow::PartialTensorShape;

constexpr size_t kMostValues = size_t{1} << 32;  // of one record

FeatureKind KindOf(DataType type) {
  if (type == tensorflow::DT_STRING) return FeatureKind::kBytes;
  return type == tensorflow::DT_FLOAT ? FeatureKind::kFloat : FeatureKind::kInt64;
}

absl::Status Wrong(const std::string& feature, const std::string& what) {
  return absl::InvalidArgumentError("tfquiver: parse: feature " + feature + ": " + what);
}

}  // namespace

absl::Status FeatureAttributes::Read(tensorflow::OpKernelConstruction* ctx) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("dense_keys", &dense_keys));
  TF_RETURN_IF_ERROR(ctx->GetAttr("Tdense", &dense_types));
  TF_RETURN_IF_ERROR(ctx->GetAttr("dense_shapes", &dense_shapes));
  TF_RETURN_IF_ERROR(ctx->GetAttr("sparse_keys", &sparse_keys));
  TF_RETURN_IF_ERROR(ctx->GetAttr("sparse_types", &sparse_types));
  TF_RETURN_IF_ERROR(ctx->GetAttr("ragged_keys", &ragged_keys));
  TF_RETURN_IF_ERROR(ctx->GetAttr("ragged_types", &ragged_types));
  TF_RETURN_IF_ERROR(ctx->GetAttr("ragged_splits", &ragged_splits));
  if (dense_types.size() != dense_keys.size() || dense_shapes.size() != dense_keys.size() ||
      sparse_types.size() != sparse_keys.size() || ragged_types.size() != ragged_keys.size() ||
      ragged_splits.size() != ragged_keys.size()) {
    return absl::InvalidArgumentError(
        "tfquiver: parse: each feature needs a key, a type, and a shape or a type of splits");
  }
  return absl::OkStatus();
}

absl::Status FeatureSpec::Make(FeatureAttributes attributes,
                               std::vector<tensorflow::Tensor> defaults,
                               std::shared_ptr<const Parsing>* spec) {
  auto made = std::make_shared<FeatureSpec>();
  made->attributes_ = std::move(attributes);
  made->defaults_ = std::move(defaults);
  TF_RETURN_IF_ERROR(made->Configure());
  made->MakeParser();
  *spec = std::move(made);
  return absl::OkStatus();
}

absl::Status FeatureSpec::Configure() {
  const FeatureAttributes& of = attributes_;
  if (defaults_.size() != of.dense_keys.size()) {
    return absl::InvalidArgumentError("tfquiver: parse: each dense feature needs a default");
  }
  std::vector<bool> variable;
  std::vector<size_t> strides;
  TF_RETURN_IF_ERROR(tensorflow::GetDenseShapes(of.dense_shapes, &variable, &strides));
  for (size_t i = 0; i < of.dense_keys.size(); ++i) {
    const tensorflow::Tensor& value = defaults_[i];
    if (value.dtype() != of.dense_types[i]) {
      return Wrong(of.dense_keys[i], "its default is of another type");
    }
    if (variable[i]
            ? value.NumElements() != 1
            : value.NumElements() > 0 && !of.dense_shapes[i].IsCompatibleWith(value.shape())) {
      return Wrong(of.dense_keys[i], "its default does not have its shape");
    }
    // TensorFlow ends the process where a number of values overflows, or is to be divided by.
    if (strides[i] > kMostValues) return Wrong(of.dense_keys[i], "more values than a record has");
    if (variable[i] && strides[i] == 0) return Wrong(of.dense_keys[i], "a sequence of no values");
    config_.dense.emplace_back(of.dense_keys[i], of.dense_types[i], of.dense_shapes[i], value,
                               variable[i], strides[i]);
  }
  for (size_t i = 0; i < of.sparse_keys.size(); ++i) {
    config_.sparse.emplace_back(of.sparse_keys[i], of.sparse_types[i]);
  }
  for (size_t i = 0; i < of.ragged_keys.size(); ++i) {
    config_.ragged.emplace_back(of.ragged_keys[i], of.ragged_types[i], of.ragged_splits[i]);
  }
  return absl::OkStatus();
}

void FeatureSpec::MakeParser() {
  if (!config_.sparse.empty() || !config_.ragged.empty()) return;
  std::vector<DenseFeature> features;
  for (const auto& dense : config_.dense) {
    // Of no values there may be a default that looks as if there were none.
    if (dense.variable_length || dense.shape.num_elements() <= 0) return;
    features.push_back(DenseFeature{std::string(dense.feature_name), KindOf(dense.dtype),
                                    static_cast<size_t>(dense.shape.num_elements()),
                                    dense.default_value.NumElements() > 0});
  }
  parser_ = std::make_unique<ExampleParser>(std::move(features));
}

std::unique_ptr<BatchParser> FeatureSpec::NewParser(int64_t threads) const {
  return std::make_unique<ExampleBatches>(this, threads);
}

tensorflow::DataTypeVector FeatureSpec::Types() const {
  tensorflow::DataTypeVector types(attributes_.dense_types.begin(), attributes_.dense_types.end());
  for (DataType type : attributes_.sparse_types) {
    types.insert(types.end(), {tensorflow::DT_INT64, type, tensorflow::DT_INT64});
  }
  for (size_t i = 0; i < attributes_.ragged_types.size(); ++i) {
    types.insert(types.end(), {attributes_.ragged_types[i], attributes_.ragged_splits[i]});
  }
  return types;
}

std::vector<PartialTensorShape> FeatureSpec::Shapes(int64_t batch) const {
  std::vector<PartialTensorShape> shapes;
  for (const PartialTensorShape& shape : attributes_.dense_shapes) {
    shapes.push_back(PartialTensorShape({batch}).Concatenate(shape));
  }
  for (size_t i = 0; i < attributes_.sparse_types.size(); ++i) {
    shapes.insert(shapes.end(),
                  {PartialTensorShape({-1, 2}), PartialTensorShape({-1}), PartialTensorShape({2})});
  }
  shapes.insert(shapes.end(), 2 * attributes_.ragged_types.size(), PartialTensorShape({-1}));
  return shapes;
}

std::vector<std::pair<absl::string_view, tensorflow::AttrValue>> FeatureSpec::Attributes() const {
  return {{"dense_keys", AttributeOf(attributes_.dense_keys)},
          {"Tdense", AttributeOf(attributes_.dense_types)},
          {"dense_shapes", AttributeOf(attributes_.dense_shapes)},
          {"sparse_keys", AttributeOf(attributes_.sparse_keys)},
          {"sparse_types", AttributeOf(attributes_.sparse_types)},
          {"ragged_keys", AttributeOf(attributes_.ragged_keys)},
          {"ragged_types", AttributeOf(attributes_.ragged_types)},
          {"ragged_splits", AttributeOf(attributes_.ragged_splits)}};
}

}  // namespace tfquiver
