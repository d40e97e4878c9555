#include "ops/tf/exactly_once/feed.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "ops/tf/exactly_once/own_runtime.h"

namespace tfquiver {
namespace {

using tensorflow::CancellationManager;
using tensorflow::CancellationToken;
using tensorflow::Env;
using tensorflow::Tensor;
using tensorflow::data::DatasetBase;
using tensorflow::data::IteratorBase;
using tensorflow::data::IteratorContext;
using Element = std::vector<Tensor>;

// Elements that wait to be taken: few, since they may be large, and whoever sends them buffers.
// More are brought when half of them are left.
constexpr size_t kMostWaiting = 4;
// An iterator that can be destroyed is, within this; none is waited for any longer.
constexpr std::chrono::seconds kGrace{1};

}  // namespace

struct Feed::Shared {
  Shared(const DatasetBase* from, std::string called) : input(from), prefix(std::move(called)) {
    input->Ref();
  }
  ~Shared() {
    runtime.reset();
    input->Unref();
  }

  const DatasetBase* const input;
  const std::string prefix;
  std::unique_ptr<OwnRuntime> runtime;

  std::mutex mu;
  std::condition_variable changed;
  std::deque<Element> waiting;
  bool over = false;  // nothing comes after `waiting`, for the reason of `status`
  absl::Status status;
  bool unwanted = false;
  bool ended = false;       // the thread's last act
  bool cancelling = false;  // the canceller has not come back

  bool Idle() const { return ended && !cancelling; }
};

namespace {

// Threads that TensorFlow keeps waiting. Never destroyed: at the end of the process nobody waits.
template <typename Shared>
class Stragglers {
 public:
  static Stragglers& Get() {
    static Stragglers* const all = new Stragglers;
    return *all;
  }

  void Keep(std::unique_ptr<tensorflow::Thread> thread, std::shared_ptr<Shared> shared) {
    std::lock_guard<std::mutex> lock(mu_);
    Join();
    kept_.emplace_back(std::move(thread), std::move(shared));
  }

 private:
  void Join() {
    const auto ended = [](const auto& one) {
      std::lock_guard<std::mutex> lock(one.second->mu);
      return one.second->Idle();
    };
    kept_.erase(std::remove_if(kept_.begin(), kept_.end(), ended), kept_.end());
  }

  std::mutex mu_;
  // The thread goes first: its destructor joins.
  std::vector<std::pair<std::unique_ptr<tensorflow::Thread>, std::shared_ptr<Shared>>> kept_;
};

}  // namespace

Feed::Feed(IteratorContext* ctx, const DatasetBase* input, std::string prefix)
    : shared_(std::make_shared<Shared>(input, std::move(prefix))) {
  shared_->status = OwnRuntime::Make(ctx, input, &shared_->runtime);
  if (!shared_->status.ok()) {
    shared_->over = shared_->ended = true;
    return;
  }
  thread_.reset(
      Env::Default()->StartThread({}, "tfquiver_feed", [shared = shared_] { Run(shared); }));
}

Feed::~Feed() {
  if (thread_ == nullptr) return;
  Shared& shared = *shared_;
  std::unique_lock<std::mutex> lock(shared.mu);
  shared.unwanted = true;
  shared.waiting.clear();
  shared.changed.notify_all();
  std::unique_ptr<tensorflow::Thread> canceller;
  if (!shared.ended) {
    // The cancellation calls TensorFlow's client, which may wait for the very call that it is to
    // end.
    shared.cancelling = true;
    canceller.reset(Env::Default()->StartThread({}, "tfquiver_cancel", [shared = shared_] {
      shared->runtime->cancellation().StartCancel();
      std::lock_guard<std::mutex> inner(shared->mu);
      shared->cancelling = false;
      shared->changed.notify_all();
    }));
  }
  const bool idle = shared.changed.wait_for(lock, kGrace, [&] { return shared.Idle(); });
  lock.unlock();
  if (idle) return;
  Stragglers<Shared>::Get().Keep(std::move(thread_), shared_);
  Stragglers<Shared>::Get().Keep(std::move(canceller), shared_);
}

void Feed::Run(const std::shared_ptr<Shared>& shared) {
  IteratorContext* const ctx = shared->runtime->context();
  std::unique_ptr<IteratorBase> iterator;
  absl::Status status = shared->input->MakeIterator(ctx, nullptr, shared->prefix, &iterator);
  for (bool end = false; !end;) {
    Element element;
    if (status.ok()) status = iterator->GetNext(ctx, &element, &end);
    if (!status.ok()) end = true;
    std::unique_lock<std::mutex> lock(shared->mu);
    if (end) {
      shared->status = status;
      shared->over = true;
    } else {
      shared->waiting.push_back(std::move(element));
    }
    shared->changed.notify_all();
    shared->changed.wait(lock,
                         [&] { return shared->unwanted || shared->waiting.size() < kMostWaiting; });
    if (shared->unwanted) break;
  }
  iterator.reset();
  std::lock_guard<std::mutex> lock(shared->mu);
  shared->ended = true;
  shared->changed.notify_all();
}

Feed::Outcome Feed::Take(std::chrono::milliseconds patience, CancellationManager* cancellation,
                         Element* element, absl::Status* status) {
  Shared& shared = *shared_;
  bool cancelled = false;
  CancellationToken token = 0;
  bool registered = false;
  std::unique_lock<std::mutex> lock(shared.mu);
  const auto decided = [&] { return !shared.waiting.empty() || shared.over || cancelled; };
  if (!decided()) {
    if (cancellation != nullptr) {
      lock.unlock();
      token = cancellation->get_cancellation_token();
      registered = cancellation->RegisterCallback(token, [&shared, &cancelled] {
        std::lock_guard<std::mutex> inner(shared.mu);
        cancelled = true;
        shared.changed.notify_all();
      });
      lock.lock();
      if (!registered) cancelled = true;
    }
    if (patience.count() == 0) {
      shared.changed.wait(lock, decided);
    } else {
      shared.changed.wait_for(lock, patience, decided);
    }
  }
  Outcome outcome = Outcome::kNothing;
  if (!shared.waiting.empty()) {
    *element = std::move(shared.waiting.front());
    shared.waiting.pop_front();
    // Not for each one that is taken: the thread would wake for each, to bring one.
    if (shared.waiting.size() == kMostWaiting / 2) shared.changed.notify_all();
    outcome = Outcome::kElement;
  } else if (shared.over) {
    *status = shared.status;
    outcome = shared.status.ok() ? Outcome::kEnd : Outcome::kFailed;
  } else if (cancelled) {
    outcome = Outcome::kCancelled;
  }
  lock.unlock();
  if (registered) cancellation->DeregisterCallback(token);
  return outcome;
}

}  // namespace tfquiver
