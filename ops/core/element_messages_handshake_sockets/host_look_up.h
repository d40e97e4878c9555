#ifndef TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_HOST_LOOK_UP_H_
#define TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_HOST_LOOK_UP_H_

#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/clock.h"
#include "ops/core/node_messages_socket_tickets/unix_socket.h"

namespace tfquiver {

struct SocketAddress {
  sockaddr_storage address;
  socklen_t size;
};

// The addresses of hosts. The system's look-up of a name takes as long as its servers do not
// answer, and cannot be ended: it is left in a thread, which the next one that asks for the same
// finds there. One thread at a time, of all in this process 64.
class HostLookUp {
 public:
  // Blocks. Empty: found; else why not.
  using System = std::function<std::string(const std::string& host, const std::string& port,
                                           bool number, std::vector<SocketAddress>* found)>;

  // `system`: tests have their own.
  explicit HostLookUp(System system = {});

  // Until the deadline, or until `cancel` (may be null) is signalled. Empty: found; else why not.
  std::string Find(const std::string& host, const std::string& port, Clock::time_point deadline,
                   const WakeFd* cancel, std::vector<SocketAddress>* found);

  // Waits for every look-up of this process, so that it leaves no thread: for tests.
  static void JoinAll();

 private:
  struct UnderWay;

  const System system_;
  std::string asked_;
  std::shared_ptr<UnderWay> under_way_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_HOST_LOOK_UP_H_
