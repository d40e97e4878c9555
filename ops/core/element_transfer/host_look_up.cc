#include "ops/core/element_transfer/host_look_up.h"

#include <netdb.h>
#include <poll.h>

#include <atomic>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

namespace tfquiver {
namespace {

std::string OfTheSystem(const std::string& host, const std::string& port, bool number,
                        std::vector<SocketAddress>* found) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  if (number) wanted.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* all = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &wanted, &all)) {
    return ::gai_strerror(error);
  }
  for (const addrinfo* one = all; one != nullptr; one = one->ai_next) {
    SocketAddress address{};
    std::memcpy(&address.address, one->ai_addr, one->ai_addrlen);
    address.size = one->ai_addrlen;
    found->push_back(address);
  }
  ::freeaddrinfo(all);
  return "";
}

}  // namespace

// What the thread and whoever waits for it have in common.
struct HostLookUp::UnderWay {
  WakeFd over;  // is signalled then, for good
  std::atomic<bool> done{false};
  std::string why_not;
  std::vector<SocketAddress> found;
};

HostLookUp::HostLookUp(System system) : system_(system ? std::move(system) : &OfTheSystem) {}

std::string HostLookUp::Find(const std::string& host, const std::string& port,
                             Clock::time_point deadline, const WakeFd* cancel,
                             std::vector<SocketAddress>* found) {
  // A number is not looked up anywhere.
  if (system_(host, port, /*number=*/true, found).empty()) return "";
  const std::string asked = host + ":" + port;
  if (under_way_ == nullptr || asked_ != asked) {
    const auto begun = std::make_shared<UnderWay>();
    if (begun->over.get() < 0) return "no event descriptor: too many open files";
    try {
      std::thread([begun, system = system_, host, port] {
        begun->why_not = system(host, port, /*number=*/false, &begun->found);
        begun->done = true;
        begun->over.Signal();
      }).detach();
    } catch (const std::system_error&) {
      return "there is no thread to spare for its name";
    }
    under_way_ = begun;
    asked_ = asked;
  }
  const int cancelled = cancel == nullptr ? -1 : cancel->get();
  while (!under_way_->done) {
    pollfd one{cancelled, POLLIN, 0};
    if (::poll(&one, 1, 0) > 0) return "cancelled";
    if (Clock::now() >= deadline) return "its name is not found in time";
    Wait(under_way_->over.get(), POLLIN, cancelled, deadline);
  }
  *found = under_way_->found;
  std::string why_not = std::move(under_way_->why_not);
  under_way_.reset();
  return why_not;
}

}  // namespace tfquiver
