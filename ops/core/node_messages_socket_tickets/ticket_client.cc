#include "ops/core/node_messages_socket_tickets/ticket_client.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "ops/core/node_messages_socket_tickets/unix_socket.h"

namespace tfquiver {

Status AskForTicket(const std::string& socket_path, const std::string& label,
                    const TicketFields& ticket, std::chrono::milliseconds limit,
                    TicketReply* reply) {
  const auto deadline = Clock::now() + limit;
  const std::string where = "the tfquiver node at " + socket_path;
  if (socket_path.empty()) {
    return Status(Code::kUnavailable, "this process knows no tfquiver node to ask for a ticket");
  }
  UnixSocket socket;
  Status status = UnixSocket::Connect(socket_path, &socket);
  if (!status.ok()) {
    return Status(Code::kUnavailable, "cannot reach the tfquiver node: " + status.message());
  }
  const auto pid = static_cast<uint32_t>(::getpid());
  for (const std::string& frame : {EncodeHello(Role::kTickets, pid, label), EncodeTicket(ticket)}) {
    if (socket.Send(frame) != UnixSocket::Outcome::kDone) {
      return Status(Code::kUnavailable, where + " does not listen");
    }
  }
  std::string buffer;
  while (Clock::now() < deadline) {
    UniqueFd fd;
    const UnixSocket::Outcome outcome = socket.Receive(&buffer, &fd);
    if (outcome == UnixSocket::Outcome::kLost ||
        outcome == UnixSocket::Outcome::kOutOfDescriptors) {  // with a ticket none comes
      return Status(Code::kUnavailable, where + " hung up");
    }
    if (outcome == UnixSocket::Outcome::kAgain) {
      Wait(socket.get(), POLLIN, -1, deadline);
      continue;
    }
    NodeFrame frame;
    status = Decode(buffer, &frame);
    if (!status.ok()) return status;
    if (auto* error = std::get_if<ErrorFrame>(&frame)) {
      return Status(error->fatal ? error->code : Code::kUnavailable, error->message);
    }
    if (auto* answer = std::get_if<TicketReply>(&frame)) {
      *reply = std::move(*answer);
      return Status();
    }
    if (!std::holds_alternative<Welcome>(frame)) {
      return Status(Code::kAborted, where + " broke the protocol: a frame out of turn");
    }
  }
  return Status(Code::kUnavailable, where + " gave no ticket in time");
}

std::chrono::milliseconds SlowNodes::Limit(const std::string& path, Clock::time_point now,
                                           std::chrono::milliseconds limit) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto slow = until_.find(path);
  if (slow == until_.end()) return limit;
  if (now < slow->second) return std::chrono::milliseconds(0);
  slow->second = now + kPause;
  return std::min(limit, kProbe);
}

void SlowNodes::Called(const std::string& path, Clock::time_point now, bool in_vain) {
  std::lock_guard<std::mutex> lock(mu_);
  if (in_vain) {
    until_[path] = now + kPause;
  } else {
    until_.erase(path);
  }
}

}  // namespace tfquiver
