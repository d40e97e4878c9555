#ifndef TFQUIVER_OPS_TF_PARSING_EXAMPLE_BATCHES_H_
#define TFQUIVER_OPS_TF_PARSING_EXAMPLE_BATCHES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/core/shuffle_pool_and_order/mixture.h"
#include "ops/tf/parsing/feature_spec.h"
#include "ops/tf/parsing/parse_threads.h"
#include "ops/tf/parsing/parsing.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/tensor.h"

namespace tfquiver {

// Parses batches of tf.train.Example protos. The errors are those of tf.io.parse_example.
class ExampleBatches : public BatchParser {
 public:
  ExampleBatches(const FeatureSpec* spec, int64_t threads);

  absl::Status Parse(tensorflow::data::IteratorContext* ctx, const Drawn& drawn,
                     std::vector<tensorflow::Tensor>* out_tensors) override;

 private:
  // *usual: whether all records were; else nothing is appended.
  absl::Status ParseUsual(tensorflow::data::IteratorContext* ctx, const Drawn& drawn,
                          std::vector<tensorflow::Tensor>* out_tensors, bool* usual);
  absl::Status ParseAny(tensorflow::data::IteratorContext* ctx, const Drawn& drawn,
                        std::vector<tensorflow::Tensor>* out_tensors);
  // Whether there is memory for the dense features of so many records, one by one.
  absl::Status CheckRoom(tensorflow::data::IteratorContext* ctx, size_t records) const;

  const FeatureSpec* const spec_;
  ParseThreads threads_;
  std::vector<std::vector<std::string_view>> texts_;  // by feature; room for those of a batch
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_PARSING_EXAMPLE_BATCHES_H_
