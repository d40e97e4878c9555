#include "ops/core/element_messages_handshake_sockets/stream_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>

#include "ops/core/bytes_checksums_tfrecords/bytes.h"
#include "ops/core/element_messages_handshake_sockets/messages.h"

namespace tfquiver {
namespace {

constexpr size_t kMostParts = 512;  // of one sendmsg; the kernel takes 1024
constexpr int kBacklog = 128;
constexpr int kRtoMaxMs = 44;  // TCP_RTO_MAX_MS, which the C library does not know yet
constexpr int kAskAgainMs = 5000;

socklen_t AbstractAddress(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const size_t size = std::min(name.size(), sizeof(address->sun_path) - 1);
  std::memcpy(address->sun_path + 1, name.data(), size);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
}

int Milliseconds(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

// Of one address; 0, or the errno.
int ConnectTo(int fd, const sockaddr* address, socklen_t size, Clock::time_point deadline,
              const WakeFd* cancel) {
  if (::connect(fd, address, size) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waiting[] = {{fd, POLLOUT, 0}, {cancel == nullptr ? -1 : cancel->get(), POLLIN, 0}};
  int ready;
  do {
    ready = ::poll(waiting, 2, Milliseconds(deadline));
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) return ETIMEDOUT;
  if (waiting[1].revents != 0) return ECANCELED;
  int error = 0;
  socklen_t length = sizeof(error);
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

void SetTimeout(int fd, int which, int64_t milliseconds) {
  const timeval limit{static_cast<time_t>(milliseconds / 1000),
                      static_cast<suseconds_t>(milliseconds % 1000 * 1000)};
  ::setsockopt(fd, SOL_SOCKET, which, &limit, sizeof(limit));
}

void MakeBlocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK); }

Status Unreachable(const std::string& address, const std::string& why, int error = 0) {
  return Status(error == ECONNREFUSED ? Code::kNotFound : Code::kUnavailable,
                "the worker's element transport at " + address + ": " + why);
}

Status ConnectTcp(const std::string& address, Clock::time_point deadline, UniqueFd* fd,
                  const WakeFd* cancel, HostLookUp* look_up) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return Unreachable(address, "no host:port");
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[') host = host.substr(1, host.size() - 2);
  std::vector<SocketAddress> found;
  const std::string why_not =
      look_up->Find(host, address.substr(colon + 1), deadline, cancel, &found);
  if (!why_not.empty()) return Unreachable(address, why_not);
  int error = ECONNREFUSED;
  for (const SocketAddress& one : found) {
    UniqueFd socket(::socket(one.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) {
      error = errno;
      continue;
    }
    error = ConnectTo(socket.get(), reinterpret_cast<const sockaddr*>(&one.address), one.size,
                      deadline, cancel);
    if (error == 0) *fd = std::move(socket);
    if (error == 0 || error == ECANCELED) break;
  }
  return error == 0 ? Status() : Unreachable(address, std::strerror(error), error);
}

}  // namespace

Status StreamSocket::Connect(const std::string& address, Clock::time_point deadline, UniqueFd* fd,
                             const WakeFd* cancel, HostLookUp* look_up) {
  const bool local = !address.empty() && address.front() == '@';
  if (local) {
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un where;
    const socklen_t size = AbstractAddress(address.substr(1), &where);
    const int error = socket.valid() ? ConnectTo(socket.get(), reinterpret_cast<sockaddr*>(&where),
                                                 size, deadline, cancel)
                                     : errno;
    if (error != 0) return Unreachable(address, std::strerror(error));
    *fd = std::move(socket);
  } else {
    HostLookUp own;
    Status status = ConnectTcp(address, deadline, fd, cancel, look_up == nullptr ? &own : look_up);
    if (!status.ok()) return status;
  }
  MakeBlocking(fd->get());
  Configure(fd->get(), local);
  if (!local) {
    // Keepalive asks nothing while something sent is not acknowledged, for a quarter of an hour.
    ::setsockopt(fd->get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kSilenceMs, sizeof(kSilenceMs));
  }
  return Status();
}

UniqueFd StreamSocket::ListenTcp(int port, int* bound) {
  for (const int family : {AF_INET6, AF_INET}) {
    UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd.valid()) continue;
    const int one = 1;
    const int zero = 0;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    sockaddr_in6 v6{};
    sockaddr_in v4{};
    v6.sin6_family = AF_INET6;
    v4.sin_family = AF_INET;
    v6.sin6_port = v4.sin_port = htons(static_cast<uint16_t>(port));
    const bool six = family == AF_INET6;
    if (six) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
    auto* address = six ? reinterpret_cast<sockaddr*>(&v6) : reinterpret_cast<sockaddr*>(&v4);
    socklen_t size = six ? sizeof(v6) : sizeof(v4);
    if (::bind(fd.get(), address, size) != 0 || ::listen(fd.get(), kBacklog) != 0 ||
        ::getsockname(fd.get(), address, &size) != 0) {
      continue;
    }
    *bound = ntohs(six ? v6.sin6_port : v4.sin_port);
    return fd;
  }
  return UniqueFd();
}

UniqueFd StreamSocket::ListenLocal(const std::string& name) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address;
  const socklen_t size = AbstractAddress(name, &address);
  if (!fd.valid() || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return UniqueFd();
  }
  return fd;
}

void StreamSocket::Configure(int fd, bool local) {
  if (local) return;
  const auto set = [fd](int level, int name, int value) {
    ::setsockopt(fd, level, name, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, kRtoMaxMs, kAskAgainMs);
}

void StreamSocket::NoteTaken(std::atomic<Clock::time_point>* taken_at,
                             std::chrono::milliseconds every) {
  taken_at_ = taken_at;
  SetTimeout(fd_.get(), SO_SNDTIMEO, every.count());
}

int StreamSocket::Untaken() const {
  int bytes = 0;
  ::ioctl(fd_.get(), SIOCOUTQ, &bytes);
  return bytes;
}

bool StreamSocket::Send(std::vector<iovec> parts, int fd) {
  size_t first = 0;
  int untaken = 0;
  while (first < parts.size()) {
    msghdr message{};
    message.msg_iov = &parts[first];
    message.msg_iovlen = std::min(parts.size() - first, kMostParts);
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    if (fd >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      cmsghdr* rider = CMSG_FIRSTHDR(&message);
      rider->cmsg_level = SOL_SOCKET;
      rider->cmsg_type = SCM_RIGHTS;
      rider->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(rider), &fd, sizeof(int));
    }
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN && taken_at_ != nullptr) {
      // The kernel takes more only once much of its buffer is free: a slow peer is seen by that.
      const int now_untaken = Untaken();
      if (now_untaken < untaken) *taken_at_ = Clock::now();
      untaken = now_untaken;
      continue;
    }
    if (sent < 0) return false;
    fd = -1;
    size_t left = static_cast<size_t>(sent);
    while (first < parts.size() && left >= parts[first].iov_len) left -= parts[first++].iov_len;
    if (first < parts.size()) {
      parts[first].iov_base = static_cast<char*>(parts[first].iov_base) + left;
      parts[first].iov_len -= left;
      if (taken_at_ != nullptr) {
        *taken_at_ = Clock::now();
        untaken = Untaken();
      }
    }
  }
  return true;
}

bool StreamSocket::Send(std::string_view bytes) {
  return Send({iovec{const_cast<char*>(bytes.data()), bytes.size()}});
}

bool StreamSocket::SendNow(std::string_view bytes) {
  return ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

bool StreamSocket::Receive(void* data, size_t size, UniqueFd* fd) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    iovec part{at, size};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[kRidersBytes];
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = ::recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    // First of all: whatever came is this process's, also where it ends the connection.
    std::vector<UniqueFd> came = DescriptorsOf(&message);
    if (Clock::now() > deadline_ || message.msg_flags & MSG_CTRUNC) return false;
    if (!came.empty()) {
      if (came.size() > 1 || fd == nullptr || fd->valid()) return false;
      *fd = std::move(came[0]);
    }
    at += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

bool StreamSocket::ReceiveMessage(size_t most, Crc32cExtend crc, std::string* message,
                                  UniqueFd* fd) {
  uint32_t size;
  uint32_t stored;
  if (!Receive(&size, sizeof(size), fd) || size > most) return false;
  message->resize(size + sizeof(stored));
  if (!Receive(message->data(), message->size(), fd)) return false;
  std::memcpy(&stored, message->data() + size, sizeof(stored));
  message->resize(size);
  return crc(0, message->data(), size) == stored;
}

bool StreamSocket::ReceiveMessageBefore(Clock::time_point deadline, size_t most, Crc32cExtend crc,
                                        std::string* message) {
  // A timeout bounds each wait; who sends a byte now and then is seen by the clock.
  SetTimeout(fd_.get(), SO_RCVTIMEO, std::max(Milliseconds(deadline), 1));
  deadline_ = deadline;
  const bool done = ReceiveMessage(most, crc, message);
  deadline_ = Clock::time_point::max();
  SetTimeout(fd_.get(), SO_RCVTIMEO, 0);
  return done;
}

bool StreamSocket::Readable(std::chrono::milliseconds within) const {
  pollfd waiting{fd_.get(), POLLIN, 0};
  return ::poll(&waiting, 1, static_cast<int>(within.count())) > 0;
}

bool StreamSocket::PeerIsGone(unsigned asked_again, unsigned silent_ms) const {
  if (local_) return false;
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(fd_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  return std::max(info.tcpi_retransmits, info.tcpi_probes) >= asked_again &&
         info.tcpi_last_ack_recv >= silent_ms;
}

void StreamSocket::ShutDown() { ::shutdown(fd_.get(), SHUT_RDWR); }

}  // namespace tfquiver
