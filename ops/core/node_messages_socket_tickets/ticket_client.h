#ifndef TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_TICKET_CLIENT_H_
#define TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_TICKET_CLIENT_H_

#include <chrono>
#include <map>
#include <mutex>
#include <string>

#include "ops/core/node_messages_socket_tickets/frame.h"
#include "ops/core/node_messages_socket_tickets/unix_socket.h"
#include "ops/core/status.h"

namespace tfquiver {

// Asks the node at `socket_path` for a ticket: one connection, closed again. kUnavailable when
// there is no answer within `limit`; the node's own error otherwise. The caller may hold
// TensorFlow's dispatcher lock, hence the limit; and it is never freed there, hence no connection
// is kept.
Status AskForTicket(const std::string& socket_path, const std::string& label,
                    const TicketFields& ticket, std::chrono::milliseconds limit,
                    TicketReply* reply);

// Nodes that let a caller wait in vain are not asked again for a while, so that one that hangs does
// not stall whoever else waits for the caller's lock. Thread-safe; time is given from outside.
class SlowNodes {
 public:
  static constexpr std::chrono::milliseconds kPause{2000};
  // What the first question after a pause may take.
  static constexpr std::chrono::milliseconds kProbe{100};

  // How long an answer from `path` may be waited for; 0: it is not to be asked now. While one
  // caller probes a node after a pause, others do not.
  std::chrono::milliseconds Limit(const std::string& path, Clock::time_point now,
                                  std::chrono::milliseconds limit);
  // After each call that Limit let pass. `in_vain`: the limit went by without an answer.
  void Called(const std::string& path, Clock::time_point now, bool in_vain);

 private:
  std::mutex mu_;
  std::map<std::string, Clock::time_point> until_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_TICKET_CLIENT_H_
