#include "ops/core/element_messages_handshake_sockets/own_port.h"

#include <algorithm>
#include <fstream>

namespace tfquiver {
namespace {

constexpr Ports kDynamic{49152, 65535};
constexpr Ports kLinuxDefault{32768, 60999};
constexpr int kFewest = 256;  // fewer ones, and workers of one machine would meet

int Count(Ports ports) { return ports.last - ports.first + 1; }

}  // namespace

Ports GivenAway() {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  Ports ports;
  return file >> ports.first >> ports.last ? ports : kLinuxDefault;
}

int OwnPort(std::string_view worker_id, Ports given_away) {
  const Ports below{kDynamic.first, std::min(kDynamic.last, given_away.first - 1)};
  const Ports above{std::max(kDynamic.first, given_away.last + 1), kDynamic.last};
  Ports ports = Count(above) >= Count(below) ? above : below;
  if (Count(ports) < kFewest) ports = kDynamic;
  const auto byte = [worker_id](size_t i) { return static_cast<unsigned char>(worker_id[i]); };
  return ports.first + (byte(0) << 8 | byte(1)) % Count(ports);
}

}  // namespace tfquiver
