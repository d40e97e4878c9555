#ifndef TFQUIVER_OPS_TESTING_TEST_LISTENER_H_
#define TFQUIVER_OPS_TESTING_TEST_LISTENER_H_

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ops/core/node_messages_socket_tickets/unix_socket.h"
#include "ops/testing/testing.h"

namespace tfquiver {

// A node's end of the socket, that nobody accepts from but the test.
class TestListener {
 public:
  TestListener() {
    // Not TempDir(): Bazel's is longer than a socket's path may be.
    folder_ = P_tmpdir "/tfqXXXXXX";
    EXPECT_NE(::mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/socket";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    fd_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(fd_.get(), 4), 0);
  }
  ~TestListener() {
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }

  const std::string& path() const { return path_; }
  int get() const { return fd_.get(); }

 private:
  std::string folder_;
  std::string path_;
  UniqueFd fd_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TESTING_TEST_LISTENER_H_
