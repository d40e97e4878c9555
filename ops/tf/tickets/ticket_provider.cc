#include "ops/tf/tickets/ticket_provider.h"

#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include "ops/core/node_messages_socket_tickets/ticket_client.h"
#include "ops/core/told_by_python/process.h"
#include "ops/tf/status_conversion.h"
#include "tensorflow/core/framework/tensor.h"

namespace tfquiver {
namespace {

constexpr std::chrono::milliseconds kLimit{1000};

// `<process>:<n>`: the coordinator tells by it which providers belong to one start of a dispatcher.
std::string ProviderId() {
  static const std::string* const kProcess = new std::string(UniqueId());
  static std::atomic<int64_t> made{0};
  return *kProcess + ":" + std::to_string(made++);
}

}  // namespace

TicketProvider::TicketProvider(std::string endpoint, std::string session_key, std::string digest_id,
                               std::string job, const SessionWish& wish, int64_t cardinality)
    : UnsavedSplits("the coordinator keeps the state of a session"),
      endpoint_(std::move(endpoint)),
      session_key_(std::move(session_key)),
      digest_id_(std::move(digest_id)),
      job_(std::move(job)),
      wish_(wish),
      cardinality_(cardinality),
      provider_id_(ProviderId()),
      restored_(Process::Get().restoring()) {}

absl::Status TicketProvider::GetNext(tensorflow::Tensor* split, bool* end_of_splits) {
  TicketFields ticket;
  ticket.session_key = session_key_;
  ticket.provider_id = provider_id_;
  ticket.asker = restored_ ? Asker::kRestoredProvider : Asker::kProvider;
  ticket.digest_id = digest_id_;
  ticket.job = job_;
  ticket.wish = wish_;
  {
    std::lock_guard<std::mutex> lock(mu_);
    ticket.repetition = repetition_;
  }
  const Process& process = Process::Get();
  const std::string path = process.SocketPath(endpoint_);
  static SlowNodes* const slow_nodes = new SlowNodes;  // as the providers: for the process's life
  const auto began = Clock::now();
  const auto limit = slow_nodes->Limit(path, began, kLimit);
  if (limit.count() == 0) {
    return absl::UnavailableError("tfquiver: the tfquiver node at " + path +
                                  " did not answer lately; it is asked again soon");
  }
  TicketReply reply;
  const Status status = AskForTicket(path, process.label(), ticket, limit, &reply);
  const auto ended = Clock::now();
  slow_nodes->Called(path, ended, !status.ok() && ended - began >= limit);
  if (!status.ok()) return ToAbsl(status);
  *end_of_splits = reply.end;
  if (!reply.end) {
    *split = tensorflow::Tensor(tensorflow::DT_STRING, tensorflow::TensorShape({}));
    split->scalar<tensorflow::tstring>()() = reply.session_id;
  }
  return absl::OkStatus();
}

absl::Status TicketProvider::Reset() {
  std::lock_guard<std::mutex> lock(mu_);
  ++repetition_;
  return absl::OkStatus();
}

}  // namespace tfquiver
