#ifndef TFQUIVER_OPS_TF_QUIVER_DATASET_OP_ELEMENT_H_
#define TFQUIVER_OPS_TF_QUIVER_DATASET_OP_ELEMENT_H_

#include <string>
#include <vector>

#include "ops/core/shuffle_pool_and_order/mixture.h"
#include "ops/core/told_by_python/options.h"
#include "ops/tf/parsing/parsing.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/tensor.h"

namespace tfquiver {

// Appends what the op emits for these records: their positions, where asked for; the records, a
// string [n] (or a scalar, without batch_size), or what `parser`, unless it is null, makes of them;
// where they are tagged, the tags and the session that they came by. The bytes leave *drawn, whose
// records are then good for nothing, also where they cannot be parsed.
absl::Status EmitElement(tensorflow::data::IteratorContext* ctx, const Options& options,
                         const std::string& session_id, const Drawn& drawn, BatchParser* parser,
                         std::vector<tensorflow::Tensor>* out_tensors);

// Instead of that: nobody gets these records.
void DeleteBlobs(const Drawn& drawn);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_QUIVER_DATASET_OP_ELEMENT_H_
