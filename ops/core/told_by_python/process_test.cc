#include "ops/core/told_by_python/process.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ops/core/node_messages_socket_tickets/unix_socket.h"
#include "ops/testing/test_listener.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

TEST(Process, StopReachesWhoIsThereAndWhoComesLater) {
  Process& process = Process::Get();
  int stopped = 0;
  {
    Process::OnStop before([&stopped] { ++stopped; });
    process.StopAll();
    EXPECT_EQ(stopped, 1);
    Process::OnStop after([&stopped] { ++stopped; });
    EXPECT_EQ(stopped, 2);
  }
  process.ResumeAll();
  Process::OnStop later([&stopped] { ++stopped; });
  EXPECT_EQ(stopped, 2);
}

TEST(Process, EndpointsFallBackToTheDefault) {
  Process& process = Process::Get();
  EXPECT_EQ(process.SocketPath("test-a"), "");
  process.SetEndpoint("test-a", "/a");
  EXPECT_EQ(process.SocketPath("test-a"), "/a");
  EXPECT_EQ(process.SocketPath("test-b"), "");
  process.SetEndpoint("", "/default");
  EXPECT_EQ(process.SocketPath("test-b"), "/default");
  process.SetEndpoint("", "");
}

// Listens, and is another process than this one until the test ends.
class ListenerOfAnother {
 public:
  ListenerOfAnother() {
    EXPECT_EQ(::pipe(listens_), 0);
    EXPECT_EQ(::pipe(ends_), 0);
    child_ = ::fork();
    if (child_ != 0) {
      ::close(listens_[1]);
      ::close(ends_[0]);
      char byte;
      EXPECT_EQ(::read(listens_[0], &byte, 1), 1);
      return;
    }
    ::close(ends_[1]);
    ::listen(listener_.get(), 4);  // its process is who has said this last
    (void)!::write(listens_[1], "x", 1);
    char byte;
    (void)!::read(ends_[0], &byte, 1);
    ::_exit(0);
  }
  ~ListenerOfAnother() {
    ::close(ends_[1]);
    ::close(listens_[0]);
    ::waitpid(child_, nullptr, 0);
  }
  const std::string& path() const { return listener_.path(); }

 private:
  TestListener listener_;
  int listens_[2];
  int ends_[2];
  pid_t child_;
};

int Connected(const std::string& path, UnixSocket* socket) {
  EXPECT_TRUE(UnixSocket::Connect(path, socket).ok());
  return socket->get();
}

TEST(Process, IsToldAsLongAsTheConnectionIsKept) {
  Process& process = Process::Get();
  ListenerOfAnother another;
  TestListener node;
  UnixSocket kept;
  UnixSocket mine;
  process.SetEndpoint("told", node.path(), Connected(node.path(), &kept));
  UniqueFd peer(::accept(node.get(), nullptr, nullptr));
  Connected(node.path(), &mine);
  EXPECT_TRUE(process.IsTold("told", node.path(), mine.get()));
  EXPECT_TRUE(process.IsKept("told"));
  EXPECT_FALSE(process.IsTold("told", "/elsewhere", mine.get()));
  UnixSocket to_another;
  EXPECT_FALSE(process.IsTold("told", node.path(), Connected(another.path(), &to_another)));
  peer.Reset();
  EXPECT_FALSE(process.IsTold("told", node.path(), mine.get()));
  process.SetEndpoint("told", node.path());
  EXPECT_FALSE(process.IsKept("told"));
  EXPECT_TRUE(process.IsTold("told", node.path(), mine.get()));
  EXPECT_TRUE(process.IsTold("nobody has set it", node.path(), mine.get()));
}

// A child is not left the connection that its parent keeps: what has taken its number since is
// another one, by which it would wait for a node that has been told all the while.
TEST(Process, AChildTakesNothingElseForTheConnectionThatItsParentKeeps) {
  Process& process = Process::Get();
  ListenerOfAnother another;
  TestListener node;
  UnixSocket kept;
  process.SetEndpoint("forked", node.path(), Connected(node.path(), &kept));
  const int number = kept.get();
  const pid_t child = ::fork();
  if (child == 0) {
    UnixSocket mine;
    UnixSocket to_another;
    Connected(node.path(), &mine);
    ::dup2(Connected(another.path(), &to_another), number);
    ::_exit(process.IsTold("forked", node.path(), mine.get()) ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  process.SetEndpoint("forked", node.path());
}

TEST(UniqueId, Differs) { EXPECT_NE(UniqueId(), UniqueId()); }

}  // namespace
}  // namespace tfquiver
