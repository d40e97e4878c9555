#include "ops/tf/tickets/reader_ticket.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "ops/core/clock.h"
#include "ops/core/node_messages_socket_tickets/frame.h"
#include "ops/core/node_messages_socket_tickets/ticket_client.h"
#include "ops/core/reader_and_its_conversation_with_the_node/reader.h"
#include "ops/core/told_by_python/process.h"
#include "ops/tf/status_conversion.h"
#include "ops/tf/tensor_parts.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/logging.h"

namespace tfquiver {
namespace {

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

// Until the node answers, or for `give_up`, or until `pause` says false.
Status AskPatiently(const Source& source, const TicketFields& ticket,
                    std::chrono::milliseconds give_up,
                    const std::function<bool(std::chrono::milliseconds)>& pause,
                    TicketReply* reply) {
  const Process& process = Process::Get();
  const auto give_up_at = Clock::now() + give_up;
  std::chrono::milliseconds next_pause{0};
  Status asked;
  do {
    asked = AskForTicket(process.SocketPath(source.options.endpoint), process.label(), ticket,
                         kTicketCall, reply);
    next_pause = std::clamp(2 * next_pause, kTicketPause, kLongestTicketPause);
  } while (asked.code() == Code::kUnavailable && Clock::now() < give_up_at && pause(next_pause));
  return asked;
}

}  // namespace

absl::Status ReadSplit(std::string_view split, SessionOptions* session, Options* options,
                       Checkpoint* start) {
  if (!IsCheckpoint(split)) {
    session->session_id = std::string(split);
    return absl::OkStatus();
  }
  Checkpoint checkpoint;
  const Status read = ReadCheckpoint(split, start->digest_id, Crc32c(), Zlib(), &checkpoint);
  if (!read.ok()) return ToAbsl(read);
  *start = std::move(checkpoint);
  if (!session->session_key.empty()) session->session_key += kMopUpKey;
  options->job = options->job.substr(0, kMostJobBytes) + kMopUp;
  return absl::OkStatus();
}

absl::Status AskForLateTicket(const Source& source, const std::string& asker_id,
                              const std::function<bool(std::chrono::milliseconds)>& pause,
                              std::string* session_id, bool* late) {
  TicketFields ticket;
  ticket.session_key = source.session_key;
  ticket.provider_id = asker_id;
  ticket.asker = Asker::kLateReader;
  ticket.digest_id = source.digest_id;
  ticket.job = source.options.job;
  TicketReply reply;
  const Status asked = AskPatiently(source, ticket, kLateTicket, pause, &reply);
  if (asked.ok()) {
    *session_id = std::move(reply.session_id);
    *late = !reply.end;
    return absl::OkStatus();
  }
  if (asked.code() == Code::kUnavailable) return ToAbsl(asked);
  LOG(WARNING) << "tfquiver: what readers lost at the end of the epoch may be missing: "
               << asked.message();
  return absl::OkStatus();
}

absl::Status JoinStream(const Source& source, const std::string& asker_id,
                        std::chrono::milliseconds give_up,
                        const std::function<bool(std::chrono::milliseconds)>& pause,
                        std::string* session_id, bool* over) {
  TicketFields ticket;
  ticket.session_key = source.session_key;
  ticket.provider_id = asker_id + ":0";
  ticket.asker = Asker::kJoiner;
  ticket.digest_id = source.digest_id;
  ticket.job = source.options.job;
  ticket.wish = WishOf(source.options);
  TicketReply reply;
  const Status asked = AskPatiently(source, ticket, give_up, pause, &reply);
  if (!asked.ok()) return ToAbsl(asked);
  *session_id = std::move(reply.session_id);
  *over = reply.end;
  return absl::OkStatus();
}

void TellOfTheEnd(tensorflow::data::SplitProvider* provider) {
  tensorflow::Tensor split;
  bool end = false;
  const absl::Status status = provider->GetNext(&split, &end);
  if (!status.ok()) {
    LOG(WARNING) << "tfquiver: the dispatcher was not told of the end: " << status;
  }
}

}  // namespace tfquiver
