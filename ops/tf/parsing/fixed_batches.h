#ifndef TFQUIVER_OPS_TF_PARSING_FIXED_BATCHES_H_
#define TFQUIVER_OPS_TF_PARSING_FIXED_BATCHES_H_

#include <cstdint>
#include <vector>

#include "ops/core/shuffle_pool_and_order/mixture.h"
#include "ops/tf/parsing/fixed_fields.h"
#include "ops/tf/parsing/parse_threads.h"
#include "ops/tf/parsing/parsing.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/tensor.h"

namespace tfquiver {

// Puts the fields of a batch's records into tensors: the values of tf.io.decode_raw. A record that
// is longer or shorter than they are is kInvalidArgument, which names it: records keep their tags.
class FixedBatches : public BatchParser {
 public:
  FixedBatches(const FixedFields* fields, int64_t threads) : fields_(fields), threads_(threads) {}

  absl::Status Parse(tensorflow::data::IteratorContext* ctx, const Drawn& drawn,
                     std::vector<tensorflow::Tensor>* out_tensors) override;

 private:
  const FixedFields* const fields_;
  ParseThreads threads_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_PARSING_FIXED_BATCHES_H_
