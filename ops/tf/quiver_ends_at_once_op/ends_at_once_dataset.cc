#include "ops/tf/quiver_ends_at_once_op/ends_at_once_dataset.h"

#include <utility>

#include "ops/core/told_by_python/waits.h"
#include "ops/tf/quiver_ends_at_once_op/tuner_waking.h"
#include "tensorflow/core/framework/model.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tfquiver {
namespace {

namespace data = tensorflow::data;
using tensorflow::Tensor;

class EndsAtOnceIterator : public data::DatasetIterator<EndsAtOnceDataset> {
 public:
  explicit EndsAtOnceIterator(const Params& params)
      : data::DatasetIterator<EndsAtOnceDataset>(params),
        waiter_(&Waits::Get(), params.dataset->told_as()) {}

  bool SymbolicCheckpointCompatible() const override { return true; }

  absl::Status Initialize(data::IteratorContext* ctx) override {
    tuner_waking_.WhenDestroyed(ctx->model());
    return dataset()->input().MakeIterator(ctx, this, prefix(), &input_);
  }

  absl::Status GetNextInternal(data::IteratorContext* ctx, std::vector<Tensor>* out_tensors,
                               bool* end_of_sequence) override {
    waiter_.Begins();
    const absl::Status status = input_->GetNext(ctx, out_tensors, end_of_sequence);
    waiter_.Has();
    return status;
  }

 protected:
  std::shared_ptr<tensorflow::data::model::Node> CreateNode(
      data::IteratorContext*, tensorflow::data::model::Node::Args args) const override {
    return tensorflow::data::model::MakeKnownRatioNode(std::move(args), 1);
  }

  absl::Status SaveInternal(data::SerializationContext* ctx,
                            data::IteratorStateWriter* writer) override {
    return SaveInput(ctx, writer, input_);
  }

  absl::Status RestoreInternal(data::IteratorContext* ctx,
                               data::IteratorStateReader* reader) override {
    return RestoreInput(ctx, reader, input_);
  }

 private:
  TunerWaking tuner_waking_;  // destroyed last: the input's end may take a while
  std::unique_ptr<data::IteratorBase> input_;
  Waits::Waiter waiter_;
};

}  // namespace

EndsAtOnceDataset::EndsAtOnceDataset(tensorflow::OpKernelContext* ctx, const DatasetBase* input,
                                     std::string told_as)
    : DatasetBase(data::DatasetContext(ctx)), input_(input), told_as_(std::move(told_as)) {
  input_->Ref();
}

EndsAtOnceDataset::~EndsAtOnceDataset() { input_->Unref(); }

std::unique_ptr<data::IteratorBase> EndsAtOnceDataset::MakeIteratorInternal(
    const std::string& prefix) const {
  return std::make_unique<EndsAtOnceIterator>(
      EndsAtOnceIterator::Params{this, prefix + "::EndsAtOnce"});
}

absl::Status EndsAtOnceDataset::InputDatasets(std::vector<const DatasetBase*>* inputs) const {
  inputs->assign({input_});
  return absl::OkStatus();
}

absl::Status EndsAtOnceDataset::AsGraphDefInternal(data::SerializationContext* ctx,
                                                   DatasetGraphDefBuilder* b,
                                                   tensorflow::Node** output) const {
  tensorflow::Node* input = nullptr;
  TF_RETURN_IF_ERROR(b->AddInputDataset(ctx, input_, &input));
  tensorflow::AttrValue told_as;
  b->BuildAttrValue(told_as_, &told_as);
  return b->AddDataset(this, {{0, input}}, {}, {{kToldAs, told_as}}, output);
}

}  // namespace tfquiver
