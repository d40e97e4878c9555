#ifndef TFQUIVER_OPS_TF_PARSING_BATCH_PARSER_H_
#define TFQUIVER_OPS_TF_PARSING_BATCH_PARSER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "ops/core/shuffle_pool/mixture.h"
#include "ops/tf/parsing/feature_spec.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/threadpool.h"

namespace tfquiver {

// Parses batches of one iterator, which calls for one after the other.
class BatchParser {
 public:
  // `threads`: that work on a batch, the one that calls among them, the others made when first
  // needed; 0: as many as there are cores, up to 16.
  BatchParser(std::shared_ptr<const FeatureSpec> spec, int64_t threads);

  // Appends the tensors of `spec`, in its order. What the records are is up to the caller to
  // delete. The error is that of tf.io.parse_example; nothing is appended then.
  absl::Status Parse(tensorflow::data::IteratorContext* ctx, const Drawn& drawn,
                     std::vector<tensorflow::Tensor>* out_tensors);

 private:
  bool ParseUsual(tensorflow::data::IteratorContext* ctx, const Drawn& drawn,
                  std::vector<tensorflow::Tensor>* out_tensors);
  absl::Status ParseAny(const Drawn& drawn, std::vector<tensorflow::Tensor>* out_tensors);
  // Calls `work` for all of 0 to `records`, in runs.
  void InParallel(int64_t records, const std::function<void(int64_t, int64_t)>& work);
  tensorflow::thread::ThreadPool* Pool();

  const std::shared_ptr<const FeatureSpec> spec_;
  const int64_t helpers_;
  std::unique_ptr<tensorflow::thread::ThreadPool> pool_;
  std::vector<std::vector<std::string_view>> texts_;  // by feature; room for those of a batch
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_PARSING_BATCH_PARSER_H_
