#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/core/delivered_records/delivery_ledger.h"
#include "ops/core/delivered_records/delivery_reporter.h"
#include "ops/core/delivered_records/delivery_stats.h"
#include "ops/core/told_by_python/process.h"
#include "ops/tf/exactly_once/feed.h"
#include "ops/tf/exactly_once/mop_up.h"
#include "ops/tf/exactly_once/quiver_once_dataset.h"
#include "ops/tf/exactly_once/row_filter.h"
#include "ops/tf/quiver_ends_at_once_op/tuner_waking.h"
#include "ops/tf/status_conversion.h"
#include "ops/tf/tensor_parts.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/model.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/logging.h"

namespace tfquiver {
namespace {

namespace data = tensorflow::data;
using tensorflow::Tensor;
using tensorflow::tstring;

constexpr char kLedger[] = "ledger";
// The reporter's turn when there is nothing to tell; whoever has something wakes it.
constexpr std::chrono::seconds kTurn{1};

// Whether reading the rest here may do better. What the transformation or the way that the data set
// was distributed is to blame for would fail here as well, after all the rest had been read.
bool MayBeReadHere(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return true;
    default:
      return false;
  }
}

// Where the records come from, in this order.
enum class Stage { kInput, kMopUp, kEnd };

// Takes elements of the input, and then of the mop-up, until the ledger has every record. Waits for
// nothing of the input but an element, and for that no longer than it was told to. A companion
// thread tells the node what was delivered.
class OnceIterator : public data::DatasetIterator<QuiverOnceDataset> {
 public:
  explicit OnceIterator(const Params& params)
      : data::DatasetIterator<QuiverOnceDataset>(params),
        ledger_(static_cast<uint64_t>(params.dataset->delivery().num_records),
                static_cast<uint64_t>(params.dataset->delivery().num_shards),
                static_cast<uint64_t>(params.dataset->delivery().hold_back)),
        reporter_(
            [endpoint = params.dataset->delivery().endpoint] {
              return Process::Get().SocketPath(endpoint);
            },
            "exactly_once") {}

  ~OnceIterator() override {
    std::lock_guard<std::mutex> lock(mu_);
    feed_.reset();
    mop_up_.reset();
    if (companion_ != nullptr) {
      stop_.store(true);
      reporter_.Wake();
      companion_.reset();
    }
  }

  absl::Status GetNextInternal(data::IteratorContext* ctx, std::vector<Tensor>* out_tensors,
                               bool* end_of_sequence) override {
    std::lock_guard<std::mutex> lock(mu_);
    *end_of_sequence = false;
    if (companion_ == nullptr) {
      companion_ = ctx->StartThread("tfquiver_deliveries", [this] { Accompany(); });
    }
    while (stage_ != Stage::kEnd) {
      if (ledger_.complete()) {
        End();
        break;
      }
      std::vector<Tensor> element;
      bool any = false;
      TF_RETURN_IF_ERROR(stage_ == Stage::kInput ? FromInput(ctx, &element, &any)
                                                 : FromMopUp(ctx, &element, &any));
      if (!any) continue;
      TF_RETURN_IF_ERROR(Deliver(ctx, &element, out_tensors));
      if (!out_tensors->empty()) return absl::OkStatus();
    }
    *end_of_sequence = true;
    return absl::OkStatus();
  }

 protected:
  std::shared_ptr<tensorflow::data::model::Node> CreateNode(
      data::IteratorContext*, tensorflow::data::model::Node::Args args) const override {
    return tensorflow::data::model::MakeUnknownRatioNode(std::move(args));
  }

  absl::Status SaveInternal(data::SerializationContext*,
                            data::IteratorStateWriter* writer) override {
    std::lock_guard<std::mutex> lock(mu_);
    return writer->WriteScalar(
        prefix(), kLedger,
        tstring(ledger_.Write(dataset()->delivery().digest_id, Crc32c(), Zlib())));
  }

  absl::Status RestoreInternal(data::IteratorContext*, data::IteratorStateReader* reader) override {
    std::lock_guard<std::mutex> lock(mu_);
    tstring ledger;
    TF_RETURN_IF_ERROR(reader->ReadScalar(prefix(), kLedger, &ledger));
    if (companion_ != nullptr) {
      return absl::FailedPreconditionError("tfquiver: the iterator to restore is in use");
    }
    return ToAbsl(ledger_.Read(std::string_view(ledger.data(), ledger.size()),
                               dataset()->delivery().digest_id, Crc32c(), Zlib()));
  }

 private:
  void Accompany() {
    while (!stop_.load()) reporter_.Turn(Clock::now() + kTurn);
    reporter_.Finish();
  }

  // *any: there is an element. Else, without an error, the input has given what it will.
  absl::Status FromInput(data::IteratorContext* ctx, std::vector<Tensor>* element, bool* any) {
    if (feed_ == nullptr) {
      tuner_waking_.WhenDestroyed(ctx->model());
      feed_ = std::make_unique<Feed>(ctx, &dataset()->input(), prefix());
    }
    const std::chrono::milliseconds patience(dataset()->delivery().takeover_ms);
    absl::Status status;
    switch (feed_->Take(patience, ctx->cancellation_manager(), element, &status)) {
      case Feed::Outcome::kElement:
        *any = true;
        return absl::OkStatus();
      case Feed::Outcome::kCancelled:
        return absl::CancelledError("tfquiver: the wait for the workers was cancelled");
      case Feed::Outcome::kFailed:
        if (!MayBeReadHere(status)) return status;
        LOG(WARNING) << "tfquiver: the workers failed: this process reads what is missing itself. "
                     << status;
        DeliveryStats::Get().takeovers += 1;
        break;
      case Feed::Outcome::kNothing:
        LOG(WARNING) << "tfquiver: nothing has come from the workers for " << patience.count()
                     << " ms: this process reads what is missing itself";
        DeliveryStats::Get().takeovers += 1;
        break;
      case Feed::Outcome::kEnd:
        break;
    }
    feed_.reset();
    stage_ = Stage::kMopUp;
    return absl::OkStatus();
  }

  absl::Status FromMopUp(data::IteratorContext* ctx, std::vector<Tensor>* element, bool* any) {
    if (mop_up_ == nullptr) {
      LOG(INFO) << "tfquiver: the workers have not delivered " << ledger_.missing() << " of "
                << dataset()->delivery().num_records << " records: reading them here";
      TF_RETURN_IF_ERROR(MopUp::Begin(ctx, this, dataset()->mop_up(), prefix(),
                                      dataset()->delivery().digest_id, ledger_.Done(), &mop_up_));
    }
    bool end = false;
    TF_RETURN_IF_ERROR(mop_up_->GetNext(ctx, element, &end));
    *any = !end;
    if (*any || ledger_.complete()) return absl::OkStatus();
    mop_up_.reset();
    return absl::DataLossError(
        "tfquiver: " + std::to_string(ledger_.missing()) + " of " +
        std::to_string(dataset()->delivery().num_records) +
        " records came neither from the workers nor from this process: does the transformation "
        "drop or reorder records?");
  }

  void End() {
    stage_ = Stage::kEnd;
    feed_.reset();
    mop_up_.reset();
    ledger_.EndDelivered();
    Report();
    DeliveryStats::Get().epochs += 1;
  }

  // *out becomes the rows of *element that are new, without tags and session; empty: none is.
  absl::Status Deliver(data::IteratorContext* ctx, std::vector<Tensor>* element,
                       std::vector<Tensor>* out) {
    const Tensor session = element->back();
    element->pop_back();
    const Tensor tags = element->back();
    element->pop_back();
    const bool rows = tags.dims() > 0;
    if (tags.dims() > 1) return absl::InvalidArgumentError("tfquiver: tags must be a vector");
    TF_RETURN_IF_ERROR(CheckRows(tags, *element));
    const int64_t count = tags.NumElements();
    std::vector<int64_t> fresh;
    fresh.reserve(static_cast<size_t>(count));
    for (int64_t row = 0; row < count; ++row) {
      switch (ledger_.Deliver(static_cast<uint64_t>(tags.flat<int64_t>()(row)))) {
        case DeliveryLedger::Verdict::kNew:
          fresh.push_back(row);
          break;
        case DeliveryLedger::Verdict::kDuplicate:
          break;
        case DeliveryLedger::Verdict::kWrong:
          return absl::InvalidArgumentError("tfquiver: a tag that names no record of the data set");
      }
    }
    const auto kept = static_cast<int64_t>(fresh.size());
    DeliveryStats& stats = DeliveryStats::Get();
    stats.delivered += static_cast<uint64_t>(kept);
    stats.duplicates += static_cast<uint64_t>(count - kept);
    if (stage_ == Stage::kMopUp) stats.mopped_up += static_cast<uint64_t>(kept);
    Meet(session);
    if (kept == 0) return absl::OkStatus();
    if (kept == count) {
      *out = std::move(*element);
    } else {
      for (const Tensor& tensor : *element) {
        Tensor some;
        TF_RETURN_IF_ERROR(rows ? KeepRows(ctx, tensor, fresh, &some) : absl::OkStatus());
        out->push_back(std::move(some));
      }
    }
    ledger_.ElementDelivered();
    Report();
    return absl::OkStatus();
  }

  absl::Status CheckRows(const Tensor& tags, const std::vector<Tensor>& element) {
    if (tags.dims() == 0) return absl::OkStatus();
    for (const Tensor& tensor : element) {
      if (tensor.dims() == 0 || tensor.dim_size(0) != tags.dim_size(0)) {
        return absl::InvalidArgumentError(
            "tfquiver: exactly_once needs a transformation that keeps rows: a batch of " +
            std::to_string(tags.dim_size(0)) + " records became a tensor of shape " +
            tensor.shape().DebugString());
      }
    }
    return absl::OkStatus();
  }

  // A session that is new to this iterator learns what was delivered before it.
  void Meet(const Tensor& session) {
    if (session.NumElements() == 0) return;
    const tstring& id = session.flat<tstring>()(0);
    if (id.empty() || !sessions_.insert(std::string(id)).second) return;
    reporter_.Report(std::string(id), ledger_.Acked());
  }

  void Report() {
    const std::vector<uint32_t> shards = ledger_.TakeAckable();
    if (shards.empty()) return;
    for (const std::string& session : sessions_) reporter_.Report(session, shards);
  }

  std::mutex mu_;  // held through GetNext: one taker at a time
  DeliveryLedger ledger_;
  std::set<std::string> sessions_;
  Stage stage_ = Stage::kInput;
  std::atomic<bool> stop_{false};
  DeliveryReporter reporter_;
  TunerWaking tuner_waking_;
  std::unique_ptr<Feed> feed_;
  std::unique_ptr<MopUp> mop_up_;
  std::unique_ptr<tensorflow::Thread> companion_;  // joins when destroyed
};

}  // namespace

std::unique_ptr<data::IteratorBase> QuiverOnceDataset::MakeIteratorInternal(
    const std::string& prefix) const {
  return std::make_unique<OnceIterator>(OnceIterator::Params{this, prefix + "::QuiverOnce"});
}

}  // namespace tfquiver
