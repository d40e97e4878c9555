#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/position/checkpoint.h"
#include "ops/core/reader/process.h"
#include "ops/core/reader/reader.h"
#include "ops/core/reader/whereabouts.h"
#include "ops/core/wire/ticket_client.h"
#include "ops/tf/source/live_position.h"
#include "ops/tf/source/quiver_dataset.h"
#include "ops/tf/source/static_shard.h"
#include "ops/tf/source/wait_cancellation.h"
#include "ops/tf/status_conversion.h"
#include "ops/tf/tensor_parts.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/model.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/variant.h"
#include "tensorflow/core/platform/logging.h"

namespace tfquiver {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;
using tensorflow::data::DatasetIterator;
using tensorflow::data::IteratorBase;
using tensorflow::data::IteratorContext;
using tensorflow::data::IteratorStateReader;
using tensorflow::data::IteratorStateWriter;
using tensorflow::data::SerializationContext;
using tensorflow::data::SplitProvider;

constexpr char kState[] = "state";        // of a plain checkpoint
constexpr char kPosition[] = "position";  // of a symbolic one
// Added to the job's name, for display, where a reader reads what others did not deliver.
constexpr char kMopUp[] = " (mop-up)";
// Added to the key: what is before the colon says whose the session is.
constexpr std::string_view kMopUpKey = ":mop-up";
constexpr size_t kMostJobBytes = 256;
// Of a ticket that no split provider gave: for one call, before the next one (twice as long each
// time: thousands of workers may ask at once), and for all of them.
constexpr std::chrono::milliseconds kTicketCall{1000};
constexpr std::chrono::milliseconds kTicketPause{100};
constexpr std::chrono::milliseconds kLongestTicketPause{1000};
constexpr std::chrono::seconds kLateTicket{15};

// One reader. Its thread starts with the first GetNext, so that an iterator that is only made, or
// restored at its end, opens no session.
class Iterator : public DatasetIterator<QuiverDataset> {
 public:
  explicit Iterator(const Params& params)
      : DatasetIterator<QuiverDataset>(params),
        on_stop_([this] { Cancel("tfquiver was stopped in this process"); }) {
    where_.digest_id = params.dataset->source().digest_id;
  }

  // Waits for nothing but its own thread, which is told to stop.
  ~Iterator() override {
    std::lock_guard<std::mutex> lock(mu_);
    if (reader_ != nullptr) {
      reader_->Stop();
      thread_.reset();
    }
    if (whereabouts_ != nullptr) whereabouts_->Leave();
    DropDrawn();
    std::lock_guard<std::mutex> cancel_lock(cancel_mu_);
    owned_by_cancel_ = nullptr;
  }

  absl::Status Initialize(IteratorContext* ctx) override {
    const Options& options = dataset()->source().options;
    if (UnderStaticShard(prefix()) && options.replay.empty() && !options.files) {
      return absl::InvalidArgumentError(kStaticShard);
    }
    const std::vector<std::shared_ptr<SplitProvider>> providers = ctx->split_providers();
    if (!providers.empty()) {
      split_provider_ = providers[0];
      return absl::OkStatus();
    }
    std::vector<Checkpoint> settled = dataset()->lineage().Take(Kin());
    if (!settled.empty()) {
      where_ = std::move(settled[0]);
      then_.assign(settled.begin() + 1, settled.end());
    }
    return absl::OkStatus();
  }

  absl::Status GetNextInternal(IteratorContext* ctx, std::vector<Tensor>* out_tensors,
                               bool* end_of_sequence) override {
    std::lock_guard<std::mutex> lock(mu_);
    *end_of_sequence = false;
    // Also where no wait would find it out: `ignore_errors` asks again for ever, until this.
    if (ctx->cancellation_manager() != nullptr && ctx->cancellation_manager()->IsCancelled()) {
      return absl::CancelledError("tfquiver: the iterator was cancelled");
    }
    if (reader_ == nullptr && !ended_) TF_RETURN_IF_ERROR(Start(ctx));
    if (!ended_) {
      const int64_t batch = dataset()->source().options.batch_size;
      bool end = false;
      RecordPool& pool = reader_->pool();
      WaitCancellation cancellation(ctx->cancellation_manager(), &pool);
      const Status drawn = pool.Draw(static_cast<size_t>(std::max<int64_t>(batch, 1)), &drawn_,
                                     &end, [&cancellation] { cancellation.Register(); });
      if (!drawn.ok()) return Failed(ToAbsl(drawn));
      ended_ = end && (drawn_.records.empty() || dataset()->source().options.drop_remainder);
      if (!ended_) {
        if (dataset()->source().options.with_position) out_tensors->push_back(Positions(ctx));
        out_tensors->push_back(batch == 0 ? Single(ctx) : Batch(ctx));
        if (dataset()->source().options.tagged) AddTags(ctx, out_tensors);
        pool.Release(&drawn_);
        if (whereabouts_ != nullptr) boundary_ = whereabouts_->trail()->End();
        return absl::OkStatus();
      }
      DropDrawn();
      if (whereabouts_ != nullptr) dataset()->lineage().Ended(Kin(), whereabouts_);
      TellProvider();
    }
    *end_of_sequence = true;
    return absl::OkStatus();
  }

 protected:
  std::shared_ptr<tensorflow::data::model::Node> CreateNode(
      IteratorContext*, tensorflow::data::model::Node::Args args) const override {
    return tensorflow::data::model::MakeSourceNode(std::move(args));
  }

  bool SymbolicCheckpointCompatible() const override { return true; }

  absl::Status SaveInternal(SerializationContext* ctx, IteratorStateWriter* writer) override {
    std::lock_guard<std::mutex> lock(mu_);
    if (!dataset()->source().options.replay.empty()) {
      return absl::UnimplementedError(
          "tfquiver: an iterator that replays an order log cannot be saved");
    }
    if (ctx->symbolic_checkpoint()) return SavePosition(writer);
    if (!drawn_.records.empty()) {
      return absl::FailedPreconditionError("tfquiver: the iterator was cancelled within a batch");
    }
    Checkpoint checkpoint = reader_ != nullptr ? reader_->Where() : Beginning();
    checkpoint.ended = ended_;
    return writer->WriteScalar(prefix(), kState,
                               tstring(WriteCheckpoint(checkpoint, Crc32c(), Zlib())));
  }

  absl::Status RestoreInternal(IteratorContext*, IteratorStateReader* reader) override {
    std::lock_guard<std::mutex> lock(mu_);
    std::vector<std::string> states;
    TF_RETURN_IF_ERROR(ReadStates(reader, &states));
    if (reader_ != nullptr) {
      return absl::FailedPreconditionError("tfquiver: the iterator to restore is in use");
    }
    std::vector<Checkpoint> checkpoints(states.size());
    for (size_t i = 0; i < states.size(); ++i) {
      const Status read =
          ReadCheckpoint(states[i], where_.digest_id, Crc32c(), Zlib(), &checkpoints[i]);
      if (!read.ok()) return ToAbsl(read);
    }
    for (const Checkpoint& checkpoint : checkpoints) {
      if (dataset()->source().options.files && checkpoint.shuffled && checkpoint.marks.shards > 0) {
        return absl::InvalidArgumentError(
            "tfquiver: the iterator checkpoint is of a shuffled epoch: restore it into a pipeline "
            "with that order, not with order=\"files\"");
      }
    }
    where_ = std::move(checkpoints[0]);
    then_.assign(checkpoints.begin() + 1, checkpoints.end());
    dataset()->lineage().Expect(Kin(), then_);
    restored_ = true;
    ended_ = where_.ended;
    if (CountsEpochs() && where_.epoch >= 0) dataset()->epochs()->Restored(where_.epoch);
    // Positions from here on are of another past.
    boundary_ = Trail::Mark();
    whereabouts_.reset();
    return absl::OkStatus();
  }

 private:
  // What failed stays failed. Told once, it is a cancellation: `ignore_errors` passes over every
  // other error, and would ask for ever. (In a tf.data worker CANCELLED is what clients repeat.)
  absl::Status Failed(absl::Status status) {
    if (split_provider_ != nullptr) return Final(std::move(status), true);
    if (std::exchange(told_failure_, !absl::IsCancelled(status))) {
      return absl::CancelledError(status.message());
    }
    return status;
  }

  // What was drawn is not emitted: the rest of an epoch, after the last whole batch.
  void DropDrawn() {
    for (Record& record : drawn_.records) {
      if (record.blob != nullptr) TstringBlobs()->Delete(record.blob);
    }
    if (reader_ != nullptr) reader_->pool().Release(&drawn_);
  }

  // The order is a function of the epoch's number.
  bool CountsEpochs() const {
    return dataset()->source().options.deterministic && split_provider_ == nullptr;
  }

  // The same for the iterators of one `repeat`, which number their names.
  std::string Kin() const {
    std::string kin;
    bool in_number = false;
    for (char c : prefix()) {
      if (c == ']') in_number = false;
      if (!in_number) kin += c;
      if (c == '[') in_number = true;
    }
    return kin;
  }

  // Where this iterator is that has not begun.
  Checkpoint Beginning() const {
    Checkpoint checkpoint = where_;
    if (CountsEpochs() && checkpoint.marks.shards == 0 && checkpoint.epoch < 0) {
      checkpoint.epoch = dataset()->epochs()->NextAsFarAsKnown();
    }
    return checkpoint;
  }

  // Called with every element: to write the position down is left for when it is needed.
  absl::Status SavePosition(IteratorStateWriter* writer) {
    if (whereabouts_ == nullptr) {
      if (reader_ != nullptr) {
        return absl::FailedPreconditionError(
            "tfquiver: the iterator was begun without symbolic checkpoints");
      }
      whereabouts_ = std::make_shared<Whereabouts>(Beginning(), then_, CountsEpochs());
      boundary_ = whereabouts_->trail()->End();
      if (!restored_) dataset()->lineage().Begins(Kin(), whereabouts_);
    }
    Tensor position(tensorflow::DT_VARIANT, TensorShape({}));
    position.scalar<tensorflow::Variant>()() = LivePosition(whereabouts_, boundary_, ended_);
    return writer->WriteTensor(prefix(), kPosition, position);
  }

  absl::Status ReadStates(IteratorStateReader* reader, std::vector<std::string>* states) const {
    if (!reader->Contains(prefix(), kPosition)) {
      tstring text;
      TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), kState, &text));
      *states = {text};
      return absl::OkStatus();
    }
    Tensor position;
    TF_RETURN_IF_ERROR(reader->ReadTensor(prefix(), kPosition, &position));
    const LivePosition* read = nullptr;
    if (position.dtype() == tensorflow::DT_VARIANT && position.NumElements() == 1) {
      read = position.flat<tensorflow::Variant>()(0).get<LivePosition>();
    }
    if (read == nullptr || (*states = read->Texts()).empty()) {
      return absl::InvalidArgumentError("tfquiver: this is not the position of an iterator");
    }
    return absl::OkStatus();
  }

  absl::Status Start(IteratorContext* ctx) {
    const Source& source = dataset()->source();
    Options options = source.options;
    SessionOptions session;
    session.session_key = source.session_key;
    if (split_provider_ != nullptr) {
      if (!source.options.replay.empty() || !source.options.order_log.empty()) {
        return absl::InvalidArgumentError(
            "tfquiver: log_dir= and Replay() are for one reader: not for tf.data service");
      }
      Tensor split;
      bool end = false;
      TF_RETURN_IF_ERROR(split_provider_->GetNext(&split, &end));
      if (!end) {
        TF_RETURN_IF_ERROR(TakeSplit(split.scalar<tstring>()(), &session, &options));
      } else {
        bool late = false;
        if (!source.options.tagged) {
          TF_RETURN_IF_ERROR(TakeLateTicket(&session.session_id, &late));
        }
        ended_ = !late;
        if (ended_) return absl::OkStatus();
      }
    }
    session_id_ = session.session_id;
    session.digest_id = source.digest_id;
    session.reader_id = UniqueId();
    session.label = Process::Get().label();
    ReaderParts parts;
    parts.crc = Crc32c();
    parts.zlib = Zlib();
    parts.blobs = TstringBlobs();
    parts.warn = [](const std::string& message) { LOG(WARNING) << "tfquiver: " << message; };
    parts.socket_path = [endpoint = source.options.endpoint] {
      return Process::Get().SocketPath(endpoint);
    };
    if (CountsEpochs()) {
      const std::shared_ptr<Epochs>& epochs = dataset()->epochs();
      if (where_.marks.shards == 0 && where_.epoch < 0) where_.epoch = epochs->Next();
      parts.opened = [epochs](int64_t epoch) { epochs->Opened(epoch); };
    }
    if (whereabouts_ != nullptr) parts.trail = whereabouts_->trail();
    reader_ = std::make_unique<Reader>(options, std::move(session), where_, std::move(parts));
    if (whereabouts_ != nullptr) whereabouts_->Follow(reader_.get());
    {
      std::lock_guard<std::mutex> lock(cancel_mu_);
      owned_by_cancel_ = reader_.get();
      if (!cancelled_.empty()) reader_->pool().Cancel(cancelled_);
    }
    thread_ = ctx->StartThread("tfquiver_reader", [reader = reader_.get()] { reader->Run(); });
    return absl::OkStatus();
  }

  // A split is a ticket, or, from the QuiverOnceDataset that this is to complete, what is done:
  // then this is a reader by itself, of a session that no ticket may lead to.
  absl::Status TakeSplit(const tstring& split, SessionOptions* session, Options* options) {
    const std::string_view text(split.data(), split.size());
    if (!IsCheckpoint(text)) {
      session->session_id = std::string(text);
      return absl::OkStatus();
    }
    Checkpoint checkpoint;
    const Status read = ReadCheckpoint(text, where_.digest_id, Crc32c(), Zlib(), &checkpoint);
    if (!read.ok()) return ToAbsl(read);
    where_ = std::move(checkpoint);
    if (!session->session_key.empty()) session->session_key += kMopUpKey;
    options->job = options->job.substr(0, kMostJobBytes) + kMopUp;
    return absl::OkStatus();
  }

  // The worker came, or came back, after the epoch's end: readers that were lost since then, its
  // own perhaps, have not delivered all that they had emitted. (Of tagged records the trainer knows
  // by itself which are missing.) `late` is false when nothing is. While nobody can be asked, or
  // the worker is stopped, that is unknown and no end: the client repeats what is UNAVAILABLE.
  absl::Status TakeLateTicket(std::string* session_id, bool* late) {
    const Source& source = dataset()->source();
    TicketFields ticket;
    ticket.session_key = source.session_key;
    if (late_id_.empty()) late_id_ = UniqueId();
    ticket.provider_id = late_id_;
    ticket.asker = Asker::kLateReader;
    ticket.digest_id = source.digest_id;
    ticket.job = source.options.job;
    const Process& process = Process::Get();
    const auto give_up_at = Clock::now() + kLateTicket;
    std::chrono::milliseconds pause{0};
    TicketReply reply;
    Status asked;
    do {
      asked = AskForTicket(process.SocketPath(source.options.endpoint), process.label(), ticket,
                           kTicketCall, &reply);
      if (asked.ok()) {
        *session_id = std::move(reply.session_id);
        *late = !reply.end;
        return absl::OkStatus();
      }
      pause = std::clamp(2 * pause, kTicketPause, kLongestTicketPause);
    } while (asked.code() == Code::kUnavailable && Clock::now() < give_up_at && Pause(pause));
    if (asked.code() == Code::kUnavailable) return ToAbsl(asked);
    LOG(WARNING) << "tfquiver: what readers lost at the end of the epoch may be missing: "
                 << asked.message();
    return absl::OkStatus();
  }

  // False: the iterator was stopped.
  bool Pause(std::chrono::milliseconds pause) {
    std::unique_lock<std::mutex> lock(cancel_mu_);
    return !cancel_changed_.wait_for(lock, pause, [this] { return !cancelled_.empty(); });
  }

  void AddTags(IteratorContext* ctx, std::vector<Tensor>* out_tensors) {
    Tensor tags(ctx->allocator({}), tensorflow::DT_INT64, out_tensors->back().shape());
    auto flat = tags.flat<int64_t>();
    for (size_t i = 0; i < drawn_.records.size(); ++i) {
      flat(static_cast<int64_t>(i)) = static_cast<int64_t>(drawn_.records[i].tag);
    }
    Tensor session(ctx->allocator({}), tensorflow::DT_STRING, TensorShape({}));
    session.scalar<tstring>()() = session_id_;
    out_tensors->push_back(std::move(tags));
    out_tensors->push_back(std::move(session));
  }

  // Asked once more after the end, so that the dispatcher learns of it and tells late workers.
  void TellProvider() {
    if (split_provider_ == nullptr) return;
    Tensor split;
    bool end = false;
    const absl::Status status = split_provider_->GetNext(&split, &end);
    if (!status.ok())
      LOG(WARNING) << "tfquiver: the dispatcher was not told of the end: " << status;
  }

  static void Move(const Record& record, tstring* to) {
    if (record.blob == nullptr) {
      to->assign(record.data, record.size);
      return;
    }
    *to = std::move(*static_cast<tstring*>(record.blob));
    TstringBlobs()->Delete(record.blob);
  }

  Tensor Single(IteratorContext* ctx) {
    Tensor tensor(ctx->allocator({}), tensorflow::DT_STRING, TensorShape({}));
    Move(drawn_.records[0], &tensor.scalar<tstring>()());
    return tensor;
  }

  Tensor Positions(IteratorContext* ctx) {
    const auto size = static_cast<int64_t>(drawn_.positions.size());
    const bool batched = dataset()->source().options.batch_size > 0;
    const TensorShape shape = batched ? TensorShape({size}) : TensorShape({});
    Tensor tensor(ctx->allocator({}), tensorflow::DT_INT64, shape);
    std::copy_n(drawn_.positions.begin(), size, tensor.flat<int64_t>().data());
    return tensor;
  }

  Tensor Batch(IteratorContext* ctx) {
    const auto size = static_cast<int64_t>(drawn_.records.size());
    Tensor tensor(ctx->allocator({}), tensorflow::DT_STRING, TensorShape({size}));
    auto strings = tensor.vec<tstring>();
    for (int64_t i = 0; i < size; ++i) Move(drawn_.records[static_cast<size_t>(i)], &strings(i));
    return tensor;
  }

  void Cancel(const std::string& why) {
    std::lock_guard<std::mutex> lock(cancel_mu_);
    cancelled_ = why;
    cancel_changed_.notify_all();
    if (owned_by_cancel_ != nullptr) owned_by_cancel_->pool().Cancel(why);
  }

  std::mutex mu_;  // held through GetNext: one taker at a time
  std::shared_ptr<SplitProvider> split_provider_;
  Checkpoint where_;              // at the start
  std::vector<Checkpoint> then_;  // at the starts of those after it, as far as settled
  bool restored_ = false;
  std::shared_ptr<Whereabouts> whereabouts_;  // symbolic checkpoints: what positions refer to
  Trail::Mark boundary_;                      // after the last whole element
  bool ended_ = false;
  bool told_failure_ = false;
  Drawn drawn_;
  std::string session_id_;  // of the ticket; empty: none
  std::string late_id_;     // by which the coordinator knows how long this one has asked for one

  std::mutex cancel_mu_;  // never held while waiting
  std::condition_variable cancel_changed_;
  std::string cancelled_;
  Reader* owned_by_cancel_ = nullptr;  // reader_, once it is there

  std::unique_ptr<Reader> reader_;
  std::unique_ptr<tensorflow::Thread> thread_;  // joins when destroyed
  Process::OnStop on_stop_;                     // destroyed first: no call after that
};

}  // namespace

std::unique_ptr<IteratorBase> QuiverDataset::MakeIteratorInternal(const std::string& prefix) const {
  return std::make_unique<Iterator>(Iterator::Params{this, prefix + "::Quiver"});
}

}  // namespace tfquiver
