#include "ops/tf/exactly_once/row_filter.h"

#include <cstring>

#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/framework/variant.h"

namespace tfquiver {
namespace {

using tensorflow::Tensor;

template <typename T>
void CopyRows(const Tensor& from, const std::vector<int64_t>& keep, int64_t row_size, Tensor* to) {
  const T* source = from.flat<T>().data();
  T* target = to->flat<T>().data();
  for (int64_t row : keep) {
    for (int64_t i = 0; i < row_size; ++i) *target++ = source[row * row_size + i];
  }
}

}  // namespace

absl::Status KeepRows(tensorflow::data::IteratorContext* ctx, const Tensor& tensor,
                      const std::vector<int64_t>& keep, Tensor* rows) {
  tensorflow::TensorShape shape = tensor.shape();
  const int64_t row_size = tensor.NumElements() / tensor.dim_size(0);
  shape.set_dim(0, static_cast<int64_t>(keep.size()));
  *rows = Tensor(ctx->allocator({}), tensor.dtype(), shape);
  if (tensorflow::DataTypeCanUseMemcpy(tensor.dtype())) {
    const size_t row_bytes = static_cast<size_t>(row_size) *
                             static_cast<size_t>(tensorflow::DataTypeSize(tensor.dtype()));
    const auto* source = static_cast<const char*>(tensor.data());
    auto* target = static_cast<char*>(rows->data());
    for (int64_t row : keep) {
      if (row_bytes > 0)
        std::memcpy(target, source + static_cast<size_t>(row) * row_bytes, row_bytes);
      target += row_bytes;
    }
    return absl::OkStatus();
  }
  if (tensor.dtype() == tensorflow::DT_STRING) {
    CopyRows<tensorflow::tstring>(tensor, keep, row_size, rows);
    return absl::OkStatus();
  }
  if (tensor.dtype() == tensorflow::DT_VARIANT) {
    CopyRows<tensorflow::Variant>(tensor, keep, row_size, rows);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "tfquiver: exactly_once cannot take rows out of tensors of type " +
      tensorflow::DataTypeString(tensor.dtype()));
}

}  // namespace tfquiver
