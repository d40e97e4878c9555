#ifndef TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_OWN_PORT_H_
#define TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_OWN_PORT_H_

#include <string_view>

namespace tfquiver {

// Ports from `first` to `last`.
struct Ports {
  int first = 0;
  int last = 0;
};

// Those that the kernel gives away to who connects: net.ipv4.ip_local_port_range, or Linux's
// defaults where it does not say.
Ports GivenAway();

// The port of a worker of that id: of the range that is for such ports (RFC 6335, section 6), which
// nobody is told to listen in, and none that is given away, as long as there are some: a worker
// that is started again would not have it back while a connection of somebody else is there, or was
// a minute ago.
int OwnPort(std::string_view worker_id, Ports given_away);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_OWN_PORT_H_
