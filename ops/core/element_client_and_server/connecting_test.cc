// A connection that is being made, to a machine or of a name that does not answer, is given up at
// once by who is cancelled.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "ops/core/element_client_and_server/element_client.h"
#include "ops/core/element_messages_handshake_sockets/handshake.h"
#include "ops/core/element_messages_handshake_sockets/stream_socket.h"
#include "ops/testing/element_worker.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

using std::chrono::milliseconds;

constexpr auto kLong = seconds(60);
constexpr auto kSoon = seconds(20);

// What a connect ends with once it has been cancelled, and was waiting before.
Code EndsWhenCancelled(ElementClient* client) {
  auto waiting =
      std::async(std::launch::async, [&] { return client->Connect(Clock::now() + kLong).code(); });
  EXPECT_TRUE(waiting.wait_for(milliseconds(50)) == std::future_status::timeout);
  const auto begun = Clock::now();
  client->Cancel();
  const Code code = waiting.get();
  EXPECT_LT(Clock::now() - begun, Clock::duration(kSoon));
  return code;
}

// Names, of which nothing is known before Answer.
class Names {
 public:
  HostLookUp::System System() {
    return [this](const std::string&, const std::string& port, bool number,
                  std::vector<SocketAddress>* found) -> std::string {
      if (number) return "no number";
      std::unique_lock<std::mutex> lock(mu_);
      ++asked_;
      changed_.wait(lock, [this] { return answered_; });
      SocketAddress here{};
      auto* v4 = reinterpret_cast<sockaddr_in*>(&here.address);
      v4->sin_family = AF_INET;
      v4->sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
      v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      here.size = sizeof(*v4);
      found->push_back(here);
      return "";
    };
  }
  ~Names() {
    Answer();
    HostLookUp::JoinAll();
  }
  void Answer() {
    std::lock_guard<std::mutex> lock(mu_);
    answered_ = true;
    changed_.notify_all();
  }
  int asked() {
    std::lock_guard<std::mutex> lock(mu_);
    return asked_;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  bool answered_ = false;
  int asked_ = 0;
};

TEST(ConnectingTest, ANameThatIsNotAnsweredHoldsNobodyWhoIsCancelled) {
  Names names;
  ElementClient client({"", "worker.invalid:1", RandomBytes(kWorkerIdBytes)}, {}, kCrc32c,
                       names.System());
  EXPECT_EQ(EndsWhenCancelled(&client), Code::kCancelled);
}

TEST(ConnectingTest, ANameThatIsNotAnsweredInTimeIsFoundByTheNextThatAsks) {
  KnownElements source(5, 10);
  const auto server = Serve(&source);
  Names names;
  ElementClient client({"", "worker.invalid:" + std::to_string(server->port()), server->id()}, {},
                       kCrc32c, names.System());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.Connect(Clock::now() + milliseconds(20)).code(), Code::kUnavailable);
  }
  EXPECT_EQ(names.asked(), 1);
  names.Answer();
  EXPECT_EQ(Drain(&client, 10), UpTo(5));
}

TEST(ConnectingTest, NamesThatAreNeverAnsweredTakeSoManyThreadsAndNoMore) {
  Names names;
  for (int i = 0; i < 80; ++i) {
    ElementClient client({"", "worker.invalid:1", RandomBytes(kWorkerIdBytes)}, {}, kCrc32c,
                         names.System());
    EXPECT_EQ(client.Connect(Clock::now() + milliseconds(1)).code(), Code::kUnavailable);
  }
  EXPECT_LE(names.asked(), 64);
  EXPECT_GE(names.asked(), 60);  // those of other tests may just be coming to their end
}

// A listener whose queue is full answers nobody who wants to connect.
class FullListener {
 public:
  FullListener() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* at = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener_.get(), at, size), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
    EXPECT_EQ(::getsockname(listener_.get(), at, &size), 0);
    port_ = ntohs(address.sin_port);
    for (int i = 0; i < 4; ++i) {
      queued_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      (void)!::connect(queued_.back().get(), at, size);
    }
  }
  int port() const { return port_; }

 private:
  UniqueFd listener_;
  int port_ = 0;
  std::vector<UniqueFd> queued_;
};

TEST(ConnectingTest, AMachineThatDoesNotAnswerHoldsNobodyWhoIsCancelled) {
  const FullListener full;
  ElementClient client({"", At(full.port()), RandomBytes(kWorkerIdBytes)}, {}, kCrc32c);
  EXPECT_EQ(EndsWhenCancelled(&client), Code::kCancelled);
}

}  // namespace
}  // namespace tfquiver
