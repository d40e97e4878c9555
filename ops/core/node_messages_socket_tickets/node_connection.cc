#include "ops/core/node_messages_socket_tickets/node_connection.h"

#include <poll.h>
#include <unistd.h>

#include <utility>

namespace tfquiver {
namespace {

Status Stopped() { return Status(Code::kCancelled, "stopped"); }

}  // namespace

NodeConnection::NodeConnection(const std::atomic<bool>* stop, const WakeFd* wake,
                               std::function<void(const std::string&)> warn)
    : stop_(stop), wake_(wake), warn_(std::move(warn)) {}

Status NodeConnection::Dial(const std::string& path, Role role, const std::string& label,
                            Clock::time_point deadline) {
  path_ = path;
  const Status connected = UnixSocket::Connect(path_, &socket_);
  if (!connected.ok()) {
    return Status(connected.code(), "cannot reach the tfquiver node: " + connected.message() +
                                        "; is tfquiver-node running on this machine?");
  }
  Status status = Say(EncodeHello(role, static_cast<uint32_t>(::getpid()), label), -1, deadline);
  if (!status.ok()) return status;
  NodeFrame frame;
  UniqueFd fd;
  status = Hear(&frame, &fd, deadline);
  if (!status.ok()) return status;
  if (!std::holds_alternative<Welcome>(frame)) return Broken("no WELCOME");
  return Status();
}

Status NodeConnection::OutOfDescriptors() const {
  return Status(Code::kUnavailable, "no descriptor for what the tfquiver node at " + path_ +
                                        " sends: too many open files in this process (ulimit -n)");
}

Status NodeConnection::Broken(const std::string& how) const {
  return Status(Code::kAborted, "the tfquiver node at " + path_ + " broke the protocol: " + how);
}

Status NodeConnection::Say(const std::string& frame, int fd, Clock::time_point deadline) {
  while (true) {
    if (stop_->load()) return Stopped();
    switch (socket_.Send(frame, fd)) {
      case UnixSocket::Outcome::kDone:
        return Status();
      case UnixSocket::Outcome::kLost:
      case UnixSocket::Outcome::kOutOfDescriptors:  // only where something is received
        return Status(Code::kUnavailable, "the tfquiver node at " + path_ + " hung up");
      case UnixSocket::Outcome::kAgain:
        break;
    }
    if (Clock::now() >= deadline) {
      return Status(Code::kUnavailable, "the tfquiver node at " + path_ + " does not listen");
    }
    Wait(socket_.get(), POLLOUT, wake_->get(), deadline);
    wake_->Clear();
  }
}

Status NodeConnection::Hear(NodeFrame* frame, UniqueFd* fd, Clock::time_point deadline) {
  std::string trouble;
  while (true) {
    if (stop_->load()) return Stopped();
    switch (socket_.Receive(&buffer_, fd)) {
      case UnixSocket::Outcome::kOutOfDescriptors:
        return OutOfDescriptors();
      case UnixSocket::Outcome::kLost:
        return Status(Code::kUnavailable, "the tfquiver node at " + path_ + " hung up");
      case UnixSocket::Outcome::kDone: {
        const Status status = Decode(buffer_, frame);
        if (!status.ok()) return Broken(status.message());
        auto* error = std::get_if<ErrorFrame>(frame);
        if (error == nullptr) return Status();
        if (error->fatal) return Status(error->code, error->message);
        warn_(error->message);
        trouble = ": " + error->message;
        continue;
      }
      case UnixSocket::Outcome::kAgain:
        break;
    }
    if (Clock::now() >= deadline) {
      return Status(Code::kUnavailable,
                    "the tfquiver node at " + path_ + " does not answer in time" + trouble);
    }
    Wait(socket_.get(), POLLIN, wake_->get(), deadline);
    wake_->Clear();
  }
}

}  // namespace tfquiver
