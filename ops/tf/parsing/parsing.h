#ifndef TFQUIVER_OPS_TF_PARSING_PARSING_H_
#define TFQUIVER_OPS_TF_PARSING_PARSING_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ops/core/shuffle_pool_and_order/mixture.h"
#include "tensorflow/core/framework/attr_value.pb.h"
#include "tensorflow/core/framework/attr_value_util.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/tensor.h"

namespace tfquiver {

// Makes tensors of the batches of one iterator, which calls for one after the other.
class BatchParser {
 public:
  virtual ~BatchParser() = default;
  // Appends the tensors of its Parsing, in its order. What the records are is up to the caller to
  // delete. After an error nothing is appended.
  virtual absl::Status Parse(tensorflow::data::IteratorContext* ctx, const Drawn& drawn,
                             std::vector<tensorflow::Tensor>* out_tensors) = 0;
};

// What the op emits instead of records. Immutable.
class Parsing {
 public:
  virtual ~Parsing() = default;
  virtual tensorflow::DataTypeVector Types() const = 0;
  // `batch`: records in a batch; -1: unknown.
  virtual std::vector<tensorflow::PartialTensorShape> Shapes(int64_t batch) const = 0;
  // The op's attributes that say so, and its last input.
  virtual std::vector<std::pair<absl::string_view, tensorflow::AttrValue>> Attributes() const = 0;
  virtual const std::vector<tensorflow::Tensor>& defaults() const = 0;
  // `threads`: that work on a batch, the one that calls among them; 0: ParseThreads chooses. This
  // must outlive what it makes.
  virtual std::unique_ptr<BatchParser> NewParser(int64_t threads) const = 0;
};

// Of such an attribute, its value.
template <typename List>
tensorflow::AttrValue AttributeOf(const List& list) {
  tensorflow::AttrValue value;
  tensorflow::SetAttrValue(list, &value);
  return value;
}

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_PARSING_PARSING_H_
