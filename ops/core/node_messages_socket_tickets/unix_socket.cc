#include "ops/core/node_messages_socket_tickets/unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>

#include "ops/core/node_messages_socket_tickets/frame.h"

namespace tfquiver {
namespace {

// The open connections of this process. Its lock is held while the process forks.
class Connections {
 public:
  static Connections& Get() {
    static Connections* connections = new Connections;  // outlives every iterator
    return *connections;
  }
  void Add(int fd) {
    std::lock_guard<std::mutex> lock(mu_);
    fds_.insert(fd);
  }
  void Close(int fd) {
    std::lock_guard<std::mutex> lock(mu_);
    fds_.erase(fd);
    ::close(fd);
  }

 private:
  Connections() { ::pthread_atfork(&BeforeFork, &AfterFork, &InChild); }
  static void BeforeFork() { Get().mu_.lock(); }
  static void AfterFork() { Get().mu_.unlock(); }
  // Only what a signal handler may call. The numbers stay taken, because objects copied into the
  // child still hold and may close them.
  static void InChild() {
    Connections& connections = Get();
    if (!connections.fds_.empty()) {
      const int nowhere = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      for (int fd : connections.fds_) {
        if (nowhere < 0 || ::dup3(nowhere, fd, O_CLOEXEC) < 0) ::close(fd);
      }
      if (nowhere >= 0) ::close(nowhere);
    }
    connections.mu_.unlock();
  }

  std::mutex mu_;
  std::set<int> fds_;
};

}  // namespace

void UniqueFd::Reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

std::vector<UniqueFd> DescriptorsOf(msghdr* message) {
  std::vector<UniqueFd> came;
  for (cmsghdr* h = CMSG_FIRSTHDR(message); h != nullptr; h = CMSG_NXTHDR(message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int received;
      std::memcpy(&received, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
      came.emplace_back(received);
    }
  }
  return came;
}

WakeFd::WakeFd() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void WakeFd::Signal() const {
  const uint64_t one = 1;
  (void)!::write(fd_.get(), &one, sizeof(one));
}

void WakeFd::Clear() const {
  uint64_t count;
  (void)!::read(fd_.get(), &count, sizeof(count));
}

Status UnixSocket::Connect(const std::string& path, UnixSocket* socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Status(Code::kInvalidArgument, "the socket path is longer than " +
                                              std::to_string(sizeof(address.sun_path) - 1) +
                                              " bytes: " + path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  socket->Close();
  socket->fd_.Reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket->open()) {
    return Status(Code::kResourceExhausted, std::string("no socket: ") + std::strerror(errno));
  }
  Connections::Get().Add(socket->get());
  if (::connect(socket->get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const int error = errno;
    socket->Close();
    return Status(Code::kUnavailable, path + ": " + std::strerror(error));
  }
  return Status();
}

void UnixSocket::Close() {
  if (!fd_.valid()) return;
  Connections::Get().Close(fd_.Release());
}

FrameMessage::FrameMessage(std::string_view frame, int fd)
    : part_{const_cast<char*>(frame.data()), frame.size()} {
  message_.msg_iov = &part_;
  message_.msg_iovlen = 1;
  if (fd < 0) return;
  message_.msg_control = control_;
  message_.msg_controllen = sizeof(control_);
  cmsghdr* header = CMSG_FIRSTHDR(&message_);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
}

UnixSocket::Outcome UnixSocket::Send(std::string_view frame, int fd) {
  const FrameMessage message(frame, fd);
  while (true) {
    if (::sendmsg(fd_.get(), message.get(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
      return Outcome::kDone;
    if (errno == EINTR) continue;
    return errno == EAGAIN || errno == ENOBUFS ? Outcome::kAgain : Outcome::kLost;
  }
}

UnixSocket::Outcome UnixSocket::Receive(std::string* frame, UniqueFd* fd) {
  frame->resize(kMaxFrameBytes);
  iovec part{frame->data(), frame->size()};
  alignas(cmsghdr) char control[kRidersBytes];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t size;
  do {
    size = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return errno == EAGAIN ? Outcome::kAgain : Outcome::kLost;
  std::vector<UniqueFd> came = DescriptorsOf(&message);
  if (!came.empty()) *fd = std::move(came.back());
  if (size == 0) return Outcome::kLost;
  if ((message.msg_flags & MSG_CTRUNC) != 0 && came.empty()) return Outcome::kOutOfDescriptors;
  const bool whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 && came.size() <= 1;
  frame->resize(whole ? static_cast<size_t>(size) : 0);
  return Outcome::kDone;
}

void Wait(int socket, short events, int wake, Clock::time_point deadline) {
  pollfd fds[2] = {{socket, events, 0}, {wake, POLLIN, 0}};
  const auto left = deadline - Clock::now();
  const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  ::poll(fds, 2, static_cast<int>(std::clamp<int64_t>(left_ms, 0, 60'000)));
}

}  // namespace tfquiver
