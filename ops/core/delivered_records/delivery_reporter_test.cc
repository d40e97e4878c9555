#include "ops/core/delivered_records/delivery_reporter.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "ops/core/node_messages_socket_tickets/frame.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

using std::chrono::milliseconds;

// A node's end: accepts, and hands out what came.
class Listener {
 public:
  explicit Listener(const std::string& path) : path_(path) {
    ::unlink(path.c_str());
    fd_.Reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(fd_.get(), 8), 0);
  }
  UniqueFd Accept() {
    Wait(fd_.get(), POLLIN, -1, Clock::now() + std::chrono::seconds(5));
    UniqueFd peer(::accept(fd_.get(), nullptr, nullptr));
    EXPECT_TRUE(peer.valid());
    return peer;
  }

 private:
  const std::string path_;
  UniqueFd fd_;
};

std::string Next(const UniqueFd& peer) {
  Wait(peer.get(), POLLIN, -1, Clock::now() + std::chrono::seconds(5));
  std::string message(kMaxFrameBytes, '\0');
  const ssize_t size = ::recv(peer.get(), message.data(), message.size(), MSG_DONTWAIT);
  message.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return message;
}

class Reporter : public ::testing::Test {
 protected:
  Reporter()
      : folder_(std::filesystem::temp_directory_path() / ("once" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "socket";
  }
  ~Reporter() override { std::filesystem::remove_all(folder_); }

  const std::string hello_ = EncodeHello(Role::kDeliveries, static_cast<uint32_t>(::getpid()), "l");
  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(Reporter, SaysHelloAndThenWhatWasDelivered) {
  Listener listener(path_);
  DeliveryReporter reporter([this] { return path_; }, "l");
  reporter.Report("s", {1, 2});
  reporter.Report("s", {3});
  reporter.Report("", {9});  // of no session: nobody to tell
  reporter.Turn(Clock::now() + milliseconds(50));
  const UniqueFd peer = listener.Accept();
  EXPECT_EQ(Next(peer), hello_);
  EXPECT_EQ(Next(peer), EncodeDelivered("s", {1, 2, 3})[0]);
  reporter.Report("t", {4});
  reporter.Finish();
  EXPECT_EQ(Next(peer), EncodeDelivered("t", {4})[0]);
  EXPECT_EQ(Next(peer), "");
}

TEST_F(Reporter, TellsANodeThatComesBackWhatItToldTheOneBefore) {
  DeliveryReporter reporter([this] { return path_; }, "l");
  std::atomic<bool> stop{false};
  std::thread companion([&] {
    while (!stop.load()) reporter.Turn(Clock::now() + milliseconds(20));
  });
  reporter.Report("s", {1});  // nobody there yet
  {
    Listener listener(path_);
    const UniqueFd peer = listener.Accept();
    EXPECT_EQ(Next(peer), hello_);
    EXPECT_EQ(Next(peer), EncodeDelivered("s", {1})[0]);
  }
  Listener listener(path_);
  reporter.Report("t", {2});
  const UniqueFd peer = listener.Accept();
  EXPECT_EQ(Next(peer), hello_);
  EXPECT_EQ(Next(peer), EncodeDelivered("s", {1})[0]);
  EXPECT_EQ(Next(peer), EncodeDelivered("t", {2})[0]);
  stop.store(true);
  companion.join();
}

TEST_F(Reporter, WaitsForNothingWhenNobodyListens) {
  DeliveryReporter reporter([] { return std::string(); }, "l");
  reporter.Report("s", {1});
  const auto began = Clock::now();
  reporter.Turn(began + milliseconds(30));
  reporter.Finish();
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(1));
}

}  // namespace
}  // namespace tfquiver
