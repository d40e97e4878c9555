#include "ops/tf/parsing/fixed_fields.h"

#include <algorithm>

#include "ops/tf/parsing/fixed_batches.h"
#include "tensorflow/core/platform/byte_order.h"

namespace tfquiver {
namespace {

using tensorflow::DataType;
using tensorflow::PartialTensorShape;
using tensorflow::TensorShape;

// As long as a shard may be, so that no sum of these overflows.
constexpr int64_t kMostRecordBytes = int64_t{1} << 32;

// Of a complex number each part by itself.
size_t NumberBytes(DataType type) {
  const auto bytes = static_cast<size_t>(tensorflow::DataTypeSize(type));
  const bool complex = type == tensorflow::DT_COMPLEX64 || type == tensorflow::DT_COMPLEX128;
  return complex ? bytes / 2 : bytes;
}

std::string Hex(const std::string& bytes) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string digits;
  for (const char byte : bytes) {
    digits += kHex[static_cast<uint8_t>(byte) >> 4];
    digits += kHex[static_cast<uint8_t>(byte) & 15];
  }
  return digits;
}

}  // namespace

absl::Status FieldAttributes::Read(tensorflow::OpKernelConstruction* ctx) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("field_types", &types));
  TF_RETURN_IF_ERROR(ctx->GetAttr("field_shapes", &shapes));
  TF_RETURN_IF_ERROR(ctx->GetAttr("field_little_endian", &little_endian));
  TF_RETURN_IF_ERROR(ctx->GetAttr("field_offsets", &offsets));
  const size_t fields = types.size();
  if (shapes.size() != fields || little_endian.size() != fields || offsets.size() != fields) {
    return absl::InvalidArgumentError(
        "tfquiver: parse: each field needs a type, a shape, an order of bytes and an offset");
  }
  return absl::OkStatus();
}

absl::Status FixedFields::Make(FieldAttributes attributes, const std::string& digest_id,
                               std::string part, std::shared_ptr<const Parsing>* fields) {
  auto made = std::make_shared<FixedFields>();
  for (size_t i = 0; i < attributes.types.size(); ++i) {
    const DataType type = attributes.types[i];
    const int64_t offset = attributes.offsets[i];
    const int64_t left = kMostRecordBytes - offset;
    TensorShape shape;
    // With the batch there is one dimension more, and TensorFlow ends the process where that is too
    // many.
    if (!attributes.shapes[i].AsTensorShape(&shape) ||
        shape.dims() >= TensorShape::MaxDimensions() || shape.num_elements() < 1 || offset < 0 ||
        left < 0 || shape.num_elements() > left / tensorflow::DataTypeSize(type)) {
      return absl::InvalidArgumentError(
          "tfquiver: parse: field " + std::to_string(i) +
          " has no fixed shape or too many dimensions, is empty, or lies where no record is");
    }
    const auto bytes = static_cast<size_t>(shape.num_elements() * tensorflow::DataTypeSize(type));
    const bool as_here = attributes.little_endian[i] == tensorflow::port::kLittleEndian;
    made->fields_.push_back(
        Field{type, shape, static_cast<size_t>(offset), bytes, as_here ? 1 : NumberBytes(type)});
    made->record_bytes_ = std::max(made->record_bytes_, static_cast<size_t>(offset) + bytes);
  }
  made->attributes_ = std::move(attributes);
  made->digest_ = Hex(digest_id);
  made->part_ = std::move(part);
  *fields = std::move(made);
  return absl::OkStatus();
}

tensorflow::DataTypeVector FixedFields::Types() const {
  return {attributes_.types.begin(), attributes_.types.end()};
}

std::vector<PartialTensorShape> FixedFields::Shapes(int64_t batch) const {
  std::vector<PartialTensorShape> shapes;
  for (const PartialTensorShape& shape : attributes_.shapes) {
    shapes.push_back(PartialTensorShape({batch}).Concatenate(shape));
  }
  return shapes;
}

std::vector<std::pair<absl::string_view, tensorflow::AttrValue>> FixedFields::Attributes() const {
  return {{"field_types", AttributeOf(attributes_.types)},
          {"field_shapes", AttributeOf(attributes_.shapes)},
          {"field_little_endian", AttributeOf(attributes_.little_endian)},
          {"field_offsets", AttributeOf(attributes_.offsets)}};
}

std::unique_ptr<BatchParser> FixedFields::NewParser(int64_t threads) const {
  return std::make_unique<FixedBatches>(this, threads);
}

}  // namespace tfquiver
