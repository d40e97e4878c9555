#include "ops/tf/exactly_once/mop_up.h"

#include <atomic>

#include "ops/core/progress_and_checkpoints/checkpoint.h"
#include "ops/core/told_by_python/process.h"
#include "ops/tf/tensor_parts.h"
#include "ops/tf/tickets/unsaved_splits.h"

namespace tfquiver {
namespace {

using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::data::DatasetBase;
using tensorflow::data::IteratorBase;
using tensorflow::data::IteratorContext;

// One split, for the QuiverDataset in the pipeline: where its iterator begins.
class Beginning : public UnsavedSplits {
 public:
  explicit Beginning(std::string checkpoint)
      : UnsavedSplits("a mop-up is begun anew"), checkpoint_(std::move(checkpoint)) {}

  absl::Status GetNext(Tensor* split, bool* end_of_splits) override {
    *end_of_splits = given_.exchange(true);
    if (!*end_of_splits) {
      *split = Tensor(tensorflow::DT_STRING, tensorflow::TensorShape({}));
      split->scalar<tstring>()() = checkpoint_;
    }
    return absl::OkStatus();
  }
  absl::Status Reset() override { return absl::OkStatus(); }

 private:
  const std::string checkpoint_;
  std::atomic<bool> given_{false};
};

// Of an iterator that has read what is done.
std::string CheckpointAfter(const std::string& digest_id, const Marks& done) {
  Checkpoint rest;
  rest.shuffled = true;
  rest.order_seed = RandomSeed();
  rest.digest_id = digest_id;
  rest.marks = done;
  return WriteCheckpoint(rest, Crc32c(), Zlib());
}

}  // namespace

absl::Status MopUp::Begin(IteratorContext* ctx, const IteratorBase* parent,
                          const DatasetBase& pipeline, const std::string& prefix,
                          const std::string& digest_id, const Marks& done,
                          std::unique_ptr<MopUp>* mop_up) {
  IteratorContext::Params params(ctx);
  params.split_providers = {std::make_shared<Beginning>(CheckpointAfter(digest_id, done))};
  IteratorContext nested(std::move(params));
  std::unique_ptr<IteratorBase> iterator;
  TF_RETURN_IF_ERROR(pipeline.MakeIterator(&nested, parent, prefix + "[mop_up]", &iterator));
  mop_up->reset(new MopUp(std::move(iterator)));
  return absl::OkStatus();
}

absl::Status MopUp::GetNext(IteratorContext* ctx, std::vector<Tensor>* element, bool* end) {
  IteratorContext::Params params(ctx);
  params.split_providers.clear();
  IteratorContext nested(std::move(params));
  return iterator_->GetNext(&nested, element, end);
}

}  // namespace tfquiver
