#ifndef TFQUIVER_OPS_TF_EXACTLY_ONCE_ROW_FILTER_H_
#define TFQUIVER_OPS_TF_EXACTLY_ONCE_ROW_FILTER_H_

#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/tensor.h"

namespace tfquiver {

// *rows becomes those of `tensor` (shape [n, ...]) that `keep` names, in that order.
// kInvalidArgument for types whose elements cannot be copied.
absl::Status KeepRows(tensorflow::data::IteratorContext* ctx, const tensorflow::Tensor& tensor,
                      const std::vector<int64_t>& keep, tensorflow::Tensor* rows);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_EXACTLY_ONCE_ROW_FILTER_H_
