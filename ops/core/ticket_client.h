#ifndef TFQUIVER_OPS_CORE_TICKET_CLIENT_H_
#define TFQUIVER_OPS_CORE_TICKET_CLIENT_H_

#include <chrono>
#include <string>

#include "ops/core/frame.h"
#include "ops/core/status.h"

namespace tfquiver {

// Asks the node at `socket_path` for a ticket: one connection, closed again. kUnavailable when
// there is no answer within `limit`; the node's own error otherwise. The caller may hold
// TensorFlow's dispatcher lock, hence the limit; and it is never freed there, hence no connection
// is kept.
Status AskForTicket(const std::string& socket_path, const std::string& label,
                    const TicketFields& ticket, std::chrono::milliseconds limit,
                    TicketReply* reply);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_TICKET_CLIENT_H_
