#ifndef TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_STREAM_SOCKET_H_
#define TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_STREAM_SOCKET_H_

#include <sys/uio.h>

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "ops/core/bytes_checksums_tfrecords/crc32c.h"
#include "ops/core/clock.h"
#include "ops/core/element_messages_handshake_sockets/host_look_up.h"
#include "ops/core/node_messages_socket_tickets/unix_socket.h"
#include "ops/core/status.h"

namespace tfquiver {

// A connection over TCP, or over a Unix socket, which can carry descriptors. Blocks; ShutDown() by
// any thread ends every wait at once and for good, and the kernel ends a connection whose peer's
// machine is gone within about 30 s. (Of accepted ones only those that wait: who is sent much, and
// takes nothing for longer than that, may be busy; of these PeerIsGone tells.) One thread reads,
// one writes; the descriptor is closed when the object goes.
class StreamSocket {
 public:
  StreamSocket(UniqueFd fd, bool local) : fd_(std::move(fd)), local_(local) {}

  // Of "@name" (an abstract Unix address of this network namespace), or "host:port". kUnavailable,
  // or kNotFound where the machine says that nobody listens there. For who sends little. `cancel`,
  // once signalled, ends the wait. `look_up`: where names that were looked up before are found.
  static Status Connect(const std::string& address, Clock::time_point deadline, UniqueFd* fd,
                        const WakeFd* cancel = nullptr, HostLookUp* look_up = nullptr);
  // On every interface, or at an abstract Unix address; -1 and errno when it cannot be had.
  static UniqueFd ListenTcp(int port, int* bound);
  static UniqueFd ListenLocal(const std::string& name);

  // Keepalive, no delay, and what was not answered is asked again every five seconds at least: the
  // kernel (since Linux 6.15; before, nothing is set) asks one that takes nothing ever more seldom,
  // in the end every two minutes. To be called once for every accepted or connected descriptor.
  static void Configure(int fd, bool local);

  // From now on Send notes in *taken_at when the peer was last seen to take bytes, to within
  // `every`. It outlives this.
  void NoteTaken(std::atomic<Clock::time_point>* taken_at,
                 std::chrono::milliseconds every = std::chrono::seconds(1));

  // All parts, in order; `fd` rides along with the first byte unless it is -1. False: it is lost.
  bool Send(std::vector<iovec> parts, int fd = -1);
  bool Send(std::string_view bytes);
  // Without waiting; false unless all were sent. Nobody sends anything else meanwhile.
  bool SendNow(std::string_view bytes);
  // Exactly so many bytes. *fd: a descriptor that came with them, when asked for.
  bool Receive(void* data, size_t size, UniqueFd* fd = nullptr);
  // A message of at most `most` bytes, with its checksum checked. False: lost, or not one.
  bool ReceiveMessage(size_t most, Crc32cExtend crc, std::string* message, UniqueFd* fd = nullptr);
  // The same, but false at the deadline.
  bool ReceiveMessageBefore(Clock::time_point deadline, size_t most, Crc32cExtend crc,
                            std::string* message);

  // Whether something can be read (or the connection is lost) now, or `within` so long.
  bool Readable(std::chrono::milliseconds within = std::chrono::milliseconds(0)) const;
  // Whether the peer's machine has answered nothing for 30 s, though the kernel has asked it again
  // and again (tests wait for less). One whose process takes nothing, for however long, still
  // answers. Any thread.
  bool PeerIsGone(unsigned asked_again = kAskedAgain, unsigned silent_ms = kSilenceMs) const;
  void ShutDown();
  bool local() const { return local_; }

 private:
  static constexpr unsigned kSilenceMs = 30'000;
  // One question that is under way, or was lost, says nothing.
  static constexpr unsigned kAskedAgain = 3;

  // Of what was sent, how much the peer has not taken.
  int Untaken() const;

  UniqueFd fd_;
  const bool local_;
  std::atomic<Clock::time_point>* taken_at_ = nullptr;
  Clock::time_point deadline_ = Clock::time_point::max();  // of what is being received
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_STREAM_SOCKET_H_
