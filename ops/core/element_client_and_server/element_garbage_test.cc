// Peers that say what they should not, and memory that is not what it should be.

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "ops/core/element_client_and_server/element_client.h"
#include "ops/core/element_client_and_server/element_server.h"
#include "ops/core/element_client_and_server/shared_memory.h"
#include "ops/core/element_messages_handshake_sockets/handshake.h"
#include "ops/testing/element_worker.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

TEST(ElementGarbageTest, GarbageEndsAConnectionAndNothingElse) {
  KnownElements source(5, 10);
  const auto server = Serve(&source);
  ElementClient good(ByTcp(*server), {}, kCrc32c);
  ASSERT_TRUE(good.Connect(Clock::now() + seconds(5)).ok());
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.0\r\n\r\n"), std::string(5000, '\xff'), std::string(64, '\0'),
        Framed("nothing", kCrc32c),
        Framed(EncodeIntroduction({RandomBytes(16), server->id(), RandomBytes(32), "", ""}),
               kCrc32c) +
            Framed("\x01 no question", kCrc32c)}) {
    UniqueFd fd;
    ASSERT_TRUE(StreamSocket::Connect(At(server->port()), Clock::now() + seconds(5), &fd).ok());
    StreamSocket socket(std::move(fd), false);
    socket.Send(garbage);
    char byte;
    const auto give_up = Clock::now() + seconds(20);
    while (socket.Receive(&byte, 1)) ASSERT_TRUE(Clock::now() < give_up);  // until it is closed
  }
  EXPECT_EQ(Drain(&good, 10), UpTo(5));
}

// A worker that greets as it should and then says something else.
TEST(ElementGarbageTest, AWorkerThatSaysNonsenseIsALostConnection) {
  Element beyond;
  beyond.number = 1;
  beyond.place = Element::kShared;
  beyond.payload_bytes = 10;
  beyond.memory = 3;
  Element wrong_crc;
  wrong_crc.number = 1;
  wrong_crc.place = Element::kBehind;
  wrong_crc.payload_bytes = 4;
  Element wrong_number;
  wrong_number.number = 2;
  for (const std::string& nonsense :
       {std::string(100, '\xff'), Framed("", kCrc32c), Framed(EncodeElement(beyond), kCrc32c),
        Framed(EncodeElement(wrong_crc), kCrc32c) + "four",
        Framed(EncodeElement(wrong_number), kCrc32c)}) {
    int port;
    UniqueFd listener = StreamSocket::ListenTcp(0, &port);
    std::thread worker([&] {
      StreamSocket socket(UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)),
                          false);
      std::string message;
      socket.Send(Framed(EncodeGreeting({RandomBytes(kNonceBytes), {}}), kCrc32c));
      socket.ReceiveMessage(kMostGreetingBytes, kCrc32c, &message);
      socket.Send(Framed("+", kCrc32c));
      socket.Send(nonsense);
      char byte;
      while (socket.Receive(&byte, 1)) {
      }
    });
    ElementClient client({"", At(port), RandomBytes(kWorkerIdBytes)}, {}, kCrc32c);
    Element element;
    PayloadRef payload;
    EXPECT_TRUE(client.Next("\x08\x01", Question(), &element, &payload).code() ==
                Code::kUnavailable);
    EXPECT_TRUE(payload == nullptr);
    worker.join();
  }
}

// One byte, and `count` times the same descriptor.
void SendWith(int socket, int count, int fd) {
  char byte = 'x';
  iovec part{&byte, 1};
  std::vector<char> control(CMSG_SPACE(count * sizeof(int)));
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* rider = CMSG_FIRSTHDR(&message);
  rider->cmsg_level = SOL_SOCKET;
  rider->cmsg_type = SCM_RIGHTS;
  rider->cmsg_len = CMSG_LEN(count * sizeof(int));
  for (int i = 0; i < count; ++i) std::memcpy(CMSG_DATA(rider) + i * sizeof(int), &fd, sizeof(fd));
  ASSERT_EQ(::sendmsg(socket, &message, 0), 1);
}

// Whoever on this machine connects may send them: a worker must not run out of its own by that.
TEST(ElementGarbageTest, DescriptorsThatNobodyAskedForDoNotStayOpen) {
  for (const bool asked : {false, true}) {
    for (const int count : {1, 2, 3, 4, 5, 200}) {
      int ends[2];
      int pipe[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      ASSERT_EQ(::pipe(pipe), 0);
      const UniqueFd far(ends[1]);
      const UniqueFd reads(pipe[0]);
      UniqueFd writes(pipe[1]);
      StreamSocket near(UniqueFd(ends[0]), true);
      SendWith(far.get(), count, writes.get());
      writes.Reset();
      UniqueFd came;
      char byte;
      EXPECT_EQ(near.Receive(&byte, 1, asked ? &came : nullptr), asked && count == 1) << count;
      came.Reset();
      pollfd hung_up{reads.get(), POLLIN, 0};
      EXPECT_EQ(::poll(&hung_up, 1, 0), 1) << count << " came, some are open";
    }
  }
}

TEST(ElementGarbageTest, MemoryThatMayShrinkIsNotMapped) {
  UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(fd.get(), 4096), 0);
  EXPECT_TRUE(Mapping::Map(fd, 4096) == nullptr);
  const auto sealed = ElementMemory::Make(4096);
  UniqueFd copy(::dup(sealed->fd()));
  EXPECT_TRUE(Mapping::Map(copy, 4096) != nullptr);
  EXPECT_TRUE(Mapping::Map(copy, 8192) == nullptr);
  EXPECT_NE(::ftruncate(copy.get(), 0), 0);
}

}  // namespace
}  // namespace tfquiver
