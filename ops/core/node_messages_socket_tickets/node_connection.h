#ifndef TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_NODE_CONNECTION_H_
#define TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_NODE_CONNECTION_H_

#include <atomic>
#include <functional>
#include <string>

#include "ops/core/node_messages_socket_tickets/frame.h"
#include "ops/core/node_messages_socket_tickets/unix_socket.h"
#include "ops/core/status.h"

namespace tfquiver {

// A connection to the node while its two ends take turns: one says, the other hears. Every wait
// ends with the deadline (kUnavailable) or when `stop` is set and `wake` signalled (kCancelled).
// One thread at a time.
class NodeConnection {
 public:
  // `warn` gets the node's errors that are not fatal. All outlive the connection.
  NodeConnection(const std::atomic<bool>* stop, const WakeFd* wake,
                 std::function<void(const std::string&)> warn);

  // Connects and exchanges HELLO and WELCOME.
  Status Dial(const std::string& path, Role role, const std::string& label,
              Clock::time_point deadline);
  // Sends one frame, with `fd` riding along unless it is -1.
  Status Say(const std::string& frame, int fd, Clock::time_point deadline);
  // The next frame that is not an ERROR without consequences; a fatal one becomes the status.
  Status Hear(NodeFrame* frame, UniqueFd* fd, Clock::time_point deadline);
  // kUnavailable: what the node has sent is lost with the descriptor, and comes again another time.
  Status OutOfDescriptors() const;
  // kAborted, saying that this node broke the protocol, and how.
  Status Broken(const std::string& how) const;

  UnixSocket& socket() { return socket_; }
  const std::string& path() const { return path_; }

 private:
  const std::atomic<bool>* const stop_;
  const WakeFd* const wake_;
  const std::function<void(const std::string&)> warn_;
  UnixSocket socket_;
  std::string path_;
  std::string buffer_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_NODE_CONNECTION_H_
