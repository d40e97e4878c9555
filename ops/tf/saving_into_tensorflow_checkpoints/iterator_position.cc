#include "ops/tf/saving_into_tensorflow_checkpoints/iterator_position.h"

#include <utility>

#include "ops/core/told_by_python/process.h"
#include "ops/tf/saving_into_tensorflow_checkpoints/live_position.h"
#include "ops/tf/status_conversion.h"
#include "ops/tf/tensor_parts.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/variant.h"

namespace tfquiver {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;
using tensorflow::data::IteratorStateReader;
using tensorflow::data::IteratorStateWriter;

constexpr char kState[] = "state";        // of a plain checkpoint
constexpr char kPosition[] = "position";  // of a symbolic one

}  // namespace

IteratorPosition::IteratorPosition(const QuiverDataset* dataset, std::string prefix)
    : dataset_(dataset), prefix_(std::move(prefix)) {
  start_.digest_id = dataset_->source().digest_id;
}

void IteratorPosition::Inherit() {
  std::vector<Checkpoint> settled = dataset_->lineage().Take(Kin());
  if (settled.empty()) return;
  start_ = std::move(settled[0]);
  then_.assign(settled.begin() + 1, settled.end());
}

void IteratorPosition::Begin(ReaderParts* parts) {
  if (CountsEpochs()) {
    const std::shared_ptr<Epochs>& epochs = dataset_->epochs();
    if (start_.marks.shards == 0 && start_.epoch < 0) {
      start_.epoch = ToldEpoch(true);
      if (start_.epoch >= 0) epochs->Restored(start_.epoch);
      if (start_.epoch < 0) start_.epoch = epochs->Next();
    }
    parts->opened = [epochs](int64_t epoch) { epochs->Opened(epoch); };
  }
  if (whereabouts_ != nullptr) parts->trail = whereabouts_->trail();
}

void IteratorPosition::Follow(const Reader* reader) {
  if (whereabouts_ == nullptr) return;
  whereabouts_->Follow([reader](const Trail::Mark* mark, std::vector<Step>* steps) {
    return reader->Where(mark, steps);
  });
}

void IteratorPosition::Leave() {
  if (whereabouts_ != nullptr) whereabouts_->Leave();
}

void IteratorPosition::ElementEnded() {
  if (whereabouts_ != nullptr) boundary_ = whereabouts_->trail()->End();
}

void IteratorPosition::EpochEnded() {
  if (whereabouts_ != nullptr) dataset_->lineage().Ended(Kin(), whereabouts_);
}

absl::Status IteratorPosition::Save(const Reader* reader, bool ended, bool symbolic,
                                    IteratorStateWriter* writer) {
  if (symbolic) return SavePosition(reader, ended, writer);
  Checkpoint checkpoint = reader != nullptr ? reader->Where() : Beginning();
  checkpoint.ended = ended;
  return writer->WriteScalar(prefix_, kState,
                             tstring(WriteCheckpoint(checkpoint, Crc32c(), Zlib())));
}

absl::Status IteratorPosition::Restore(IteratorStateReader* reader) {
  std::vector<std::string> states;
  TF_RETURN_IF_ERROR(ReadStates(reader, &states));
  std::vector<Checkpoint> checkpoints(states.size());
  for (size_t i = 0; i < states.size(); ++i) {
    const Status read =
        ReadCheckpoint(states[i], start_.digest_id, Crc32c(), Zlib(), &checkpoints[i]);
    if (!read.ok()) return ToAbsl(read);
    if (dataset_->source().options.files && checkpoints[i].shuffled &&
        checkpoints[i].marks.shards > 0) {
      return absl::InvalidArgumentError(
          "tfquiver: the iterator checkpoint is of a shuffled epoch: restore it into a pipeline "
          "with that order, not with order=\"files\"");
    }
  }
  start_ = std::move(checkpoints[0]);
  then_.assign(checkpoints.begin() + 1, checkpoints.end());
  dataset_->lineage().Expect(Kin(), then_);
  restored_ = true;
  if (CountsEpochs() && start_.epoch >= 0) dataset_->epochs()->Restored(start_.epoch);
  // Positions from here on are of another past.
  boundary_ = Trail::Mark();
  whereabouts_.reset();
  return absl::OkStatus();
}

// The order is a function of the epoch's number.
bool IteratorPosition::CountsEpochs() const {
  return dataset_->source().options.deterministic && !shared_;
}

// By whoever made the pipeline; -1: nothing was said.
int64_t IteratorPosition::ToldEpoch(bool taken) const {
  return Process::Get().EpochOf(dataset_->source().session_key, taken);
}

// The same for the iterators of one `repeat`, which number their names.
std::string IteratorPosition::Kin() const {
  std::string kin;
  bool in_number = false;
  for (char c : prefix_) {
    if (c == ']') in_number = false;
    if (!in_number) kin += c;
    if (c == '[') in_number = true;
  }
  return kin;
}

// Where this iterator is that has not begun.
Checkpoint IteratorPosition::Beginning() const {
  Checkpoint checkpoint = start_;
  if (CountsEpochs() && checkpoint.marks.shards == 0 && checkpoint.epoch < 0) {
    checkpoint.epoch = ToldEpoch(false);
    if (checkpoint.epoch < 0) checkpoint.epoch = dataset_->epochs()->NextAsFarAsKnown();
  }
  return checkpoint;
}

// Called with every element: to write the position down is left for when it is needed.
absl::Status IteratorPosition::SavePosition(const Reader* reader, bool ended,
                                            IteratorStateWriter* writer) {
  if (whereabouts_ == nullptr) {
    if (reader != nullptr) {
      return absl::FailedPreconditionError(
          "tfquiver: the iterator was begun without symbolic checkpoints");
    }
    whereabouts_ = std::make_shared<Whereabouts>(Beginning(), then_, CountsEpochs());
    boundary_ = whereabouts_->trail()->End();
    if (!restored_) dataset_->lineage().Begins(Kin(), whereabouts_);
  }
  Tensor position(tensorflow::DT_VARIANT, TensorShape({}));
  position.scalar<tensorflow::Variant>()() = LivePosition(whereabouts_, boundary_, ended);
  return writer->WriteTensor(prefix_, kPosition, position);
}

absl::Status IteratorPosition::ReadStates(IteratorStateReader* reader,
                                          std::vector<std::string>* states) const {
  if (!reader->Contains(prefix_, kPosition)) {
    tstring text;
    TF_RETURN_IF_ERROR(reader->ReadScalar(prefix_, kState, &text));
    *states = {text};
    return absl::OkStatus();
  }
  Tensor position;
  TF_RETURN_IF_ERROR(reader->ReadTensor(prefix_, kPosition, &position));
  const LivePosition* read = nullptr;
  if (position.dtype() == tensorflow::DT_VARIANT && position.NumElements() == 1) {
    read = position.flat<tensorflow::Variant>()(0).get<LivePosition>();
  }
  if (read == nullptr || (*states = read->Texts()).empty()) {
    return absl::InvalidArgumentError("tfquiver: this is not the position of an iterator");
  }
  return absl::OkStatus();
}

}  // namespace tfquiver
