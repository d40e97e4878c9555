// Whether a peer's machine is there, by what the kernel knows of a real connection.

#include "ops/core/element_messages_handshake_sockets/stream_socket.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

bool Becomes(const std::function<bool()>& so, Clock::duration within) {
  for (const auto give_up = Clock::now() + within; Clock::now() < give_up;) {
    if (so()) return true;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return false;
}

// A peer that is sent much, and takes nothing.
class StreamSocketPeerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const UniqueFd listening = StreamSocket::ListenTcp(0, &port_);
    const std::string address = "127.0.0.1:" + std::to_string(port_);
    ASSERT_TRUE(StreamSocket::Connect(address, Clock::now() + seconds(5), &peer_).ok());
    UniqueFd accepted(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(accepted.valid());
    StreamSocket::Configure(accepted.get(), false);
    fd_ = accepted.get();
    sends_ = std::make_unique<StreamSocket>(std::move(accepted), false);
    sends_->NoteTaken(&taken_at_, milliseconds(10));
    sending_ = std::thread([this] { sends_->Send(std::string(size_t{64} << 20, 'x')); });
  }
  void TearDown() override {
    if (sends_ != nullptr) sends_->ShutDown();
    if (sending_.joinable()) sending_.join();
  }
  // It has been asked several times, and has answered each but perhaps the last.
  bool HasAnsweredForAWhile() {
    return Becomes([this] { return sends_->PeerIsGone(0, 1200); }, seconds(60));
  }
  // From now on nothing that is sent to its machine arrives. False: sandboxes may not let it.
  bool CutOff() {
    sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog program{1, &nothing};
    if (::setsockopt(peer_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) == 0) {
      return true;
    }
    EXPECT_EQ(errno, EPERM);
    return false;
  }

  int port_ = 0;
  UniqueFd peer_;
  std::atomic<Clock::time_point> taken_at_{Clock::now()};
  std::unique_ptr<StreamSocket> sends_;
  int fd_ = -1;
  std::thread sending_;
};

TEST_F(StreamSocketPeerTest, WhoTakesNothingIsNotGone) {
  ASSERT_TRUE(HasAnsweredForAWhile());
  EXPECT_FALSE(sends_->PeerIsGone(2, 0));  // it was asked as often, and answered
  EXPECT_FALSE(sends_->PeerIsGone(0, 30'000));
}

TEST_F(StreamSocketPeerTest, WhoTookNothingBeforeItWasGoneIsGone) {
  ASSERT_TRUE(HasAnsweredForAWhile());
  if (!CutOff()) {
    std::puts("left out: filters of sockets are not allowed here");
    return;
  }
  EXPECT_TRUE(Becomes([this] { return sends_->PeerIsGone(2, 2000); }, seconds(60)));
}

// Else minutes pass until somebody who took nothing for a while is seen to be gone.
TEST_F(StreamSocketPeerTest, WhoTakesNothingIsAskedOften) {
  int longest_ms = 0;
  socklen_t size = sizeof(longest_ms);
  constexpr int kRtoMaxMs = 44;
  if (::getsockopt(fd_, IPPROTO_TCP, kRtoMaxMs, &longest_ms, &size) != 0) {
    EXPECT_EQ(errno, ENOPROTOOPT);  // a Linux before 6.15
    return;
  }
  EXPECT_EQ(longest_ms, 5000);
}

TEST_F(StreamSocketPeerTest, WhoConnectedGivesAMachineUpThatAcknowledgesNothing) {
  unsigned silence_ms = 0;
  socklen_t size = sizeof(silence_ms);
  ASSERT_EQ(::getsockopt(peer_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, &size), 0);
  EXPECT_EQ(silence_ms, 30'000);
}

}  // namespace
}  // namespace tfquiver
