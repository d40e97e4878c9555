#ifndef TFQUIVER_OPS_TF_EXACTLY_ONCE_MOP_UP_H_
#define TFQUIVER_OPS_TF_EXACTLY_ONCE_MOP_UP_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/progress_and_checkpoints/progress.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/tensor.h"

namespace tfquiver {

// Reads here what did not come from the workers: the pipeline that they run, over the shards that
// were not delivered whole.
class MopUp {
 public:
  // `pipeline` has one QuiverDataset, of `digest_id`; `done` is what it need not read.
  static absl::Status Begin(tensorflow::data::IteratorContext* ctx,
                            const tensorflow::data::IteratorBase* parent,
                            const tensorflow::data::DatasetBase& pipeline,
                            const std::string& prefix, const std::string& digest_id,
                            const Marks& done, std::unique_ptr<MopUp>* mop_up);

  absl::Status GetNext(tensorflow::data::IteratorContext* ctx,
                       std::vector<tensorflow::Tensor>* element, bool* end);

 private:
  explicit MopUp(std::unique_ptr<tensorflow::data::IteratorBase> iterator)
      : iterator_(std::move(iterator)) {}

  const std::unique_ptr<tensorflow::data::IteratorBase> iterator_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_EXACTLY_ONCE_MOP_UP_H_
