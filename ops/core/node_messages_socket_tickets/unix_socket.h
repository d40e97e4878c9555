#ifndef TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_UNIX_SOCKET_H_
#define TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_UNIX_SOCKET_H_

#include <sys/socket.h>
#include <sys/uio.h>

#include <string>
#include <string_view>
#include <vector>

#include "ops/core/clock.h"
#include "ops/core/status.h"

namespace tfquiver {

// Owns a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void Reset(int fd = -1);

 private:
  int fd_ = -1;
};

// The control buffer of a recvmsg. The kernel puts two descriptors where there is room for one: it
// has room for more than are asked for, and DescriptorsOf is to be called whatever else is wrong.
inline constexpr size_t kRidersBytes = CMSG_SPACE(4 * sizeof(int));
// All that came with what recvmsg has received.
std::vector<UniqueFd> DescriptorsOf(msghdr* message);

// Lets any thread end another one's poll(). Signals are not counted.
class WakeFd {
 public:
  WakeFd();
  void Signal() const;
  void Clear() const;
  int get() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

// A frame as sendmsg takes it, and a descriptor that rides along unless it is -1.
class FrameMessage {
 public:
  FrameMessage(std::string_view frame, int fd);
  FrameMessage(FrameMessage&&) = delete;  // it points into itself

  const msghdr* get() const { return &message_; }

 private:
  iovec part_;
  alignas(cmsghdr) char control_[CMSG_SPACE(sizeof(int))] = {};
  msghdr message_{};
};

// One end of a SOCK_SEQPACKET connection; never blocks but in Wait. Not thread-safe. A forked child
// does not inherit the connection (its descriptor leads nowhere there): the other end learns at
// once when the process that made it is gone.
class UnixSocket {
 public:
  enum class Outcome {
    kDone,
    kAgain,
    kLost,
    kOutOfDescriptors,  // one came, of which this process can have no more now
  };

  UnixSocket() = default;
  UnixSocket(UnixSocket&&) = delete;
  ~UnixSocket() { Close(); }

  // kUnavailable, naming path and cause, when nobody answers there now.
  static Status Connect(const std::string& path, UnixSocket* socket);

  // One message, with `fd` riding along unless it is -1.
  Outcome Send(std::string_view frame, int fd = -1);
  // One message of at most kMaxFrameBytes, and the descriptor that came with it. A message that is
  // too large, or brings more than one descriptor, comes out as an empty *frame (no valid frame is
  // empty).
  Outcome Receive(std::string* frame, UniqueFd* fd);

  bool open() const { return fd_.valid(); }
  void Close();
  int get() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

// Until `socket` is ready for `events` (POLLIN, POLLOUT), `wake` is signalled, or `deadline`. A
// descriptor may be -1.
void Wait(int socket, short events, int wake, Clock::time_point deadline);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_UNIX_SOCKET_H_
