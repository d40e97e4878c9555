#include "ops/core/node_messages_socket_tickets/unix_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ops/testing/test_listener.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

// A trainer's forked children (loaders, loggers) live on when it is killed: its node must not take
// them for it.
TEST(UnixSocketTest, AForkedChildDoesNotKeepTheConnection) {
  TestListener listener;
  UnixSocket socket;
  ASSERT_TRUE(UnixSocket::Connect(listener.path(), &socket).ok());
  UniqueFd peer(::accept(listener.get(), nullptr, nullptr));
  int block[2];
  ASSERT_EQ(::pipe(block), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(block[1]);
    char byte;
    (void)!::read(block[0], &byte, 1);  // until the parent has gone on
    ::_exit(socket.Send("x") == UnixSocket::Outcome::kLost ? 0 : 1);
  }
  socket.Close();
  pollfd hung_up{peer.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&hung_up, 1, 10'000), 1);
  char byte;
  EXPECT_EQ(::recv(peer.get(), &byte, 1, MSG_DONTWAIT), 0);
  ::close(block[0]);
  ::close(block[1]);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tfquiver
