#include "ops/core/element_messages_handshake_sockets/host_look_up.h"

#include <netdb.h>
#include <poll.h>

#include <atomic>
#include <cstring>
#include <list>
#include <mutex>
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

// Threads of look-ups, this process's. They are joined when they have come to their end, by the
// next one that begins; a system that answers nobody holds so many and no more. Never destroyed:
// who ends the process does not wait for names.
class LookUpThreads {
 public:
  static LookUpThreads& Get() {
    static LookUpThreads* const all = new LookUpThreads;
    return *all;
  }

  // `look_up` sets `*done` at its end. Empty: it has begun; else why not.
  std::string Begin(std::function<void()> look_up, std::shared_ptr<std::atomic<bool>> done) {
    std::lock_guard<std::mutex> lock(mu_);
    JoinThoseThatAreOver();
    if (threads_.size() >= kMost) return "names are not answered: look-ups of others wait, too";
    try {
      threads_.push_back({std::thread(std::move(look_up)), std::move(done)});
    } catch (const std::system_error&) {
      return "there is no thread to spare for its name";
    }
    return "";
  }

  void JoinAll() {
    std::lock_guard<std::mutex> lock(mu_);
    for (One& one : threads_) one.thread.join();
    threads_.clear();
  }

 private:
  // Under mu_.
  void JoinThoseThatAreOver() {
    for (auto it = threads_.begin(); it != threads_.end();) {
      if (!*it->done) {
        ++it;
        continue;
      }
      it->thread.join();
      it = threads_.erase(it);
    }
  }

  static constexpr size_t kMost = 64;
  struct One {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> done;
  };

  std::mutex mu_;
  std::list<One> threads_;
};

}  // namespace

// What the thread and whoever waits for it have in common.
struct HostLookUp::UnderWay {
  WakeFd over;  // is signalled then, for good
  const std::shared_ptr<std::atomic<bool>> done = std::make_shared<std::atomic<bool>>(false);
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
    const std::string why_not = LookUpThreads::Get().Begin(
        [begun, system = system_, host, port] {
          begun->why_not = system(host, port, /*number=*/false, &begun->found);
          *begun->done = true;
          begun->over.Signal();
        },
        begun->done);
    if (!why_not.empty()) return why_not;
    under_way_ = begun;
    asked_ = asked;
  }
  const int cancelled = cancel == nullptr ? -1 : cancel->get();
  while (!*under_way_->done) {
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

void HostLookUp::JoinAll() { LookUpThreads::Get().JoinAll(); }

}  // namespace tfquiver
