#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/reader_and_its_conversation_with_the_node/reader.h"
#include "ops/core/told_by_python/process.h"
#include "ops/tf/parsing/parsing.h"
#include "ops/tf/quiver_dataset_op/element.h"
#include "ops/tf/quiver_dataset_op/quiver_dataset.h"
#include "ops/tf/quiver_dataset_op/static_shard.h"
#include "ops/tf/quiver_dataset_op/stopping.h"
#include "ops/tf/quiver_dataset_op/wait_cancellation.h"
#include "ops/tf/quiver_ends_at_once_op/tuner_waking.h"
#include "ops/tf/saving_into_tensorflow_checkpoints/iterator_position.h"
#include "ops/tf/status_conversion.h"
#include "ops/tf/tensor_parts.h"
#include "ops/tf/tickets/reader_ticket.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/model.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/logging.h"

namespace tfquiver {
namespace {

using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::data::DatasetIterator;
using tensorflow::data::IteratorBase;
using tensorflow::data::IteratorContext;
using tensorflow::data::IteratorStateReader;
using tensorflow::data::IteratorStateWriter;
using tensorflow::data::SerializationContext;
using tensorflow::data::SplitProvider;

// One reader. Its thread starts with the first GetNext, so that an iterator that is only made, or
// restored at its end, opens no session.
class Iterator : public DatasetIterator<QuiverDataset> {
 public:
  explicit Iterator(const Params& params)
      : DatasetIterator<QuiverDataset>(params), position_(params.dataset, params.prefix) {
    const Source& source = params.dataset->source();
    if (source.parsing == nullptr) return;
    parser_ = source.parsing->NewParser(source.options.parse_threads);
  }

  // Waits for nothing but its own thread, which is told to stop.
  ~Iterator() override {
    std::lock_guard<std::mutex> lock(mu_);
    if (reader_ != nullptr) {
      reader_->Stop();
      thread_.reset();
    }
    position_.Leave();
    DropDrawn();
    stopping_.Watch(nullptr);
  }

  absl::Status Initialize(IteratorContext* ctx) override {
    if (UnderStaticShard(prefix()) && options().replay.empty() && !options().files) {
      return absl::InvalidArgumentError(kStaticShard);
    }
    tuner_waking_.WhenDestroyed(ctx->model());
    const std::vector<std::shared_ptr<SplitProvider>> providers = ctx->split_providers();
    if (!providers.empty()) split_provider_ = providers[0];
    if (split_provider_ != nullptr || options().joins) {
      position_.Share();
    } else {
      position_.Inherit();
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
      TF_RETURN_IF_ERROR(Draw(ctx));
      if (!ended_) {
        const absl::Status emitted =
            EmitElement(ctx, options(), session_id_, drawn_, parser_.get(), out_tensors);
        // Also of records that cannot be parsed: whoever asks again gets those after them.
        reader_->pool().Release(&drawn_);
        position_.ElementEnded();
        return emitted;
      }
      DropDrawn();
      position_.EpochEnded();
      if (split_provider_ != nullptr) TellOfTheEnd(split_provider_.get());
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
    if (!options().replay.empty()) {
      return absl::UnimplementedError(
          "tfquiver: an iterator that replays an order log cannot be saved");
    }
    if (options().joins) {
      return absl::UnimplementedError(
          "tfquiver: an iterator of a stream= cannot be saved: the epoch is gone on with by those "
          "who read it, too");
    }
    if (!ctx->symbolic_checkpoint() && !drawn_.records.empty()) {
      return absl::FailedPreconditionError("tfquiver: the iterator was cancelled within a batch");
    }
    return position_.Save(reader_.get(), ended_, ctx->symbolic_checkpoint(), writer);
  }

  absl::Status RestoreInternal(IteratorContext*, IteratorStateReader* reader) override {
    std::lock_guard<std::mutex> lock(mu_);
    if (options().joins) {
      return absl::InvalidArgumentError(
          "tfquiver: a checkpoint cannot be restored into a stream=, whose epoch others have part "
          "in: restore it into a data set without stream=");
    }
    if (reader_ != nullptr) {
      return absl::FailedPreconditionError("tfquiver: the iterator to restore is in use");
    }
    TF_RETURN_IF_ERROR(position_.Restore(reader));
    ended_ = position_.start().ended;
    return absl::OkStatus();
  }

 private:
  const Options& options() const { return dataset()->source().options; }

  // The next element into drawn_, or ended_.
  absl::Status Draw(IteratorContext* ctx) {
    bool end = false;
    RecordPool& pool = reader_->pool();
    WaitCancellation cancellation(ctx->cancellation_manager(), &pool);
    const auto records = static_cast<size_t>(std::max<int64_t>(options().batch_size, 1));
    const Status drawn =
        pool.Draw(records, &drawn_, &end, [&cancellation] { cancellation.Register(); });
    if (!drawn.ok()) return Failed(ToAbsl(drawn));
    ended_ = end && (drawn_.records.empty() || options().drop_remainder);
    return absl::OkStatus();
  }

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
    DeleteBlobs(drawn_);
    if (reader_ != nullptr) reader_->pool().Release(&drawn_);
  }

  absl::Status Start(IteratorContext* ctx) {
    const Source& source = dataset()->source();
    Options options = source.options;
    SessionOptions session;
    session.session_key = source.session_key;
    if (split_provider_ != nullptr) {
      TF_RETURN_IF_ERROR(TakeTicket(&session, &options));
    } else if (options.joins) {
      TF_RETURN_IF_ERROR(Join(ctx, &session));
    }
    if (ended_) return absl::OkStatus();
    session_id_ = session.session_id;
    session.digest_id = source.digest_id;
    session.reader_id = UniqueId();
    session.label = Process::Get().label();
    ReaderParts parts;
    parts.crc = Crc32c();
    parts.zlib = Zlib();
    parts.blobs = TstringBlobs();
    parts.warn = [](const std::string& message) { LOG(WARNING) << "tfquiver: " << message; };
    parts.way = WayTo(source.options.endpoint);
    position_.Begin(&parts);
    reader_ =
        std::make_unique<Reader>(options, std::move(session), position_.start(), std::move(parts));
    position_.Follow(reader_.get());
    stopping_.Watch(reader_.get());
    thread_ = ctx->StartThread("tfquiver_reader", [reader = reader_.get()] { reader->Run(); });
    return absl::OkStatus();
  }

  // The stream's epoch that is under way: ended_ when there is none to have part in.
  absl::Status Join(IteratorContext* ctx, SessionOptions* session) {
    if (late_id_.empty()) late_id_ = UniqueId();
    const auto pause = [this, ctx](std::chrono::milliseconds pause) {
      const bool cancelled =
          ctx->cancellation_manager() != nullptr && ctx->cancellation_manager()->IsCancelled();
      return !cancelled && stopping_.Pause(pause);
    };
    const std::chrono::milliseconds patience(
        std::max(options().connect_ms, options().reconnect_ms));
    return JoinStream(dataset()->source(), late_id_, patience, pause, &session->session_id,
                      &ended_);
  }

  // From the provider, or, after its end, from the node: ended_ when neither has one.
  absl::Status TakeTicket(SessionOptions* session, Options* options) {
    if (!options->replay.empty() || !options->order_log.empty()) {
      return absl::InvalidArgumentError(
          "tfquiver: log_dir= and Replay() are for one reader: not for tf.data service");
    }
    Tensor split;
    bool end = false;
    TF_RETURN_IF_ERROR(split_provider_->GetNext(&split, &end));
    if (!end) {
      const tstring& text = split.scalar<tstring>()();
      Checkpoint start = position_.start();
      TF_RETURN_IF_ERROR(ReadSplit({text.data(), text.size()}, session, options, &start));
      position_.StartAt(std::move(start));
      return absl::OkStatus();
    }
    bool late = false;
    if (!options->tagged) {
      if (late_id_.empty()) late_id_ = UniqueId();
      const auto pause = [this](std::chrono::milliseconds pause) { return stopping_.Pause(pause); };
      TF_RETURN_IF_ERROR(
          AskForLateTicket(dataset()->source(), late_id_, pause, &session->session_id, &late));
    }
    ended_ = !late;
    return absl::OkStatus();
  }

  TunerWaking tuner_waking_;  // destroyed last
  std::mutex mu_;             // held through GetNext: one taker at a time
  std::shared_ptr<SplitProvider> split_provider_;
  IteratorPosition position_;
  bool ended_ = false;
  bool told_failure_ = false;
  Drawn drawn_;
  std::unique_ptr<BatchParser> parser_;  // null: records are emitted as they are
  std::string session_id_;               // of the ticket; empty: none
  std::string late_id_;                  // by which the coordinator knows who asks for one
  std::unique_ptr<Reader> reader_;
  std::unique_ptr<tensorflow::Thread> thread_;  // joins when destroyed
  Stopping stopping_;                           // destroyed first
};

}  // namespace

std::unique_ptr<IteratorBase> QuiverDataset::MakeIteratorInternal(const std::string& prefix) const {
  return std::make_unique<Iterator>(Iterator::Params{this, prefix + "::Quiver"});
}

}  // namespace tfquiver
