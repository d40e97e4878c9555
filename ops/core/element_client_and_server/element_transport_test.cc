// The worker's end and the trainer's, joined by real sockets.

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "ops/core/element_client_and_server/element_client.h"
#include "ops/core/element_client_and_server/element_server.h"
#include "ops/core/element_messages_handshake_sockets/handshake.h"
#include "ops/testing/element_worker.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

struct Way {
  bool local;
  size_t size;
};
class ElementTransportTest : public ::testing::TestWithParam<Way> {};

TEST_P(ElementTransportTest, AllElementsArriveOnceAndInOrder) {
  const Way way = GetParam();
  KnownElements source(60, way.size);
  const auto server = Serve(&source);
  ElementClient client(way.local ? Local(*server) : ByTcp(*server), {}, kCrc32c);
  EXPECT_EQ(Drain(&client, way.size), UpTo(60));
}

INSTANTIATE_TEST_SUITE_P(Ways, ElementTransportTest,
                         ::testing::Values(Way{true, 0}, Way{true, 100}, Way{true, 300000},
                                           Way{false, 0}, Way{false, 100}, Way{false, 300000}));

// A relay that closes what goes through it after so many bytes, again and again.
class Cutter {
 public:
  Cutter(int port, size_t cut_after) : target_(port), cut_after_(cut_after) {
    listener_ = StreamSocket::ListenTcp(0, &port_);
    thread_ = std::thread([this] { Run(); });
  }
  ~Cutter() {
    done_ = true;
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  std::string address() const { return At(port_); }
  int cuts() const { return cuts_; }

 private:
  void Run() {
    while (!done_) {
      UniqueFd near(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!near.valid()) return;
      UniqueFd far;
      if (!StreamSocket::Connect(At(target_), Clock::now() + seconds(5), &far).ok()) {
        continue;
      }
      std::thread up([&] {
        Copy(near.get(), far.get(), ~size_t{0});
        ::shutdown(far.get(), SHUT_RDWR);
      });
      // Later ones get farther: an element that is larger than what is let through would never
      // come.
      Copy(far.get(), near.get(), cut_after_ * static_cast<size_t>(1 + cuts_));
      ++cuts_;
      ::shutdown(near.get(), SHUT_RDWR);
      ::shutdown(far.get(), SHUT_RDWR);
      up.join();
    }
  }
  static void Copy(int from, int to, size_t most) {
    char bytes[4096];
    while (most > 0) {
      const ssize_t got = ::read(from, bytes, std::min(sizeof(bytes), most));
      if (got <= 0) return;
      for (ssize_t at = 0; at < got;) {
        const ssize_t sent = ::send(to, bytes + at, static_cast<size_t>(got - at), MSG_NOSIGNAL);
        if (sent <= 0) return;
        at += sent;
      }
      most -= static_cast<size_t>(got);
    }
  }

  const int target_;
  const size_t cut_after_;
  UniqueFd listener_;
  int port_ = 0;
  std::atomic<bool> done_{false};
  std::atomic<int> cuts_{0};
  std::thread thread_;
};

TEST(ElementTransportBrokenTest, NothingIsLostOrComesTwiceWhereConnectionsBreak) {
  KnownElements source(40, 3000);
  const auto server = Serve(&source);
  Cutter cutter(server->port(), 7001);
  ElementClient client({"", cutter.address(), server->id()}, {}, kCrc32c);
  EXPECT_EQ(Drain(&client, 3000), UpTo(40));
  EXPECT_GT(cutter.cuts(), 2);
}

TEST(ElementTransportStopTest, ClosingEndsEveryWaitAndNothingIsFetchedAfterIt) {
  KnownElements source(1000, 10);
  source.Block(true);
  auto server = Serve(&source);
  ElementClient client(Local(*server), {}, kCrc32c);
  auto waiting = std::async(std::launch::async, [&] {
    Element element;
    PayloadRef payload;
    return client.Next("\x08\x01", Question(), &element, &payload).code();
  });
  EXPECT_TRUE(waiting.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  server->Close();
  EXPECT_TRUE(waiting.get() == Code::kUnavailable);
  source.Block(false);  // as TensorFlow does when it stops a task
  server->Join();
  EXPECT_LE(source.given(), 1);  // the one that was being fetched
  EXPECT_TRUE(client.Connect(Clock::now() + seconds(1)).code() != Code::kOk);
}

TEST(ElementTransportStopTest, CancellingEndsAWait) {
  KnownElements source(1000, 10);
  source.Block(true);
  const auto server = Serve(&source);
  ElementClient client(ByTcp(*server), {}, kCrc32c);
  auto waiting = std::async(std::launch::async, [&] {
    Element element;
    PayloadRef payload;
    return client.Next("\x08\x01", Question(), &element, &payload).code();
  });
  EXPECT_TRUE(waiting.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  client.Cancel();
  EXPECT_TRUE(waiting.get() == Code::kCancelled);
  source.Block(false);
}

TEST(ElementTransportStopTest, WhoNeedNotWaitIsToldToSkip) {
  KnownElements source(5, 10);
  source.Block(true);
  const auto server = Serve(&source);
  ElementClient client(ByTcp(*server), {}, kCrc32c);
  Element element;
  PayloadRef payload;
  Question question;
  question.allow_skip = true;
  ASSERT_TRUE(client.Next("\x08\x01\x28\x01", question, &element, &payload).ok());
  EXPECT_TRUE(element.skip);
  source.Block(false);
  EXPECT_EQ(Drain(&client, 10), UpTo(5));
}

// A worker whose elements look into memory, of which is known who has it.
class ElementTransportLeaveTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    server_ = std::make_unique<ElementServer>(
        std::vector<std::string>(), kCrc32c, [this](std::string_view, Outgoing* element) {
          Outgoing::Bytes bytes;
          bytes.pieces.emplace_back(*memory_);
          element->bytes.push_back(std::move(bytes));
          element->head.components.push_back({Component::kRaw, 1, {}, 0, 0});
          element->holder = memory_;
        });
    ASSERT_TRUE(server_->Start(0, RandomBytes(kWorkerIdBytes)).ok());
  }
  ElementPlace Place() { return GetParam().local ? Local(*server_) : ByTcp(*server_); }
  // Also once it has given a moment's time to those that let go.
  bool IsKept(Clock::duration moment) {
    const auto give_up = Clock::now() + moment;
    while (memory_.use_count() > 1 && Clock::now() < give_up) std::this_thread::yield();
    return memory_.use_count() > 1;
  }

  const std::shared_ptr<std::string> memory_ = std::make_shared<std::string>(GetParam().size, 'm');
  std::unique_ptr<ElementServer> server_;
};

TEST_P(ElementTransportLeaveTest, WhoLeavesForGoodHasNothingKept) {
  ElementClient client(Place(), {}, kCrc32c);
  Element element;
  PayloadRef payload;
  ASSERT_TRUE(client.Next("\x08\x01", Question(), &element, &payload).ok());
  EXPECT_TRUE(IsKept(Clock::duration::zero()));
  client.Cancel();
  EXPECT_FALSE(IsKept(seconds(20)));
}

TEST_P(ElementTransportLeaveTest, WhoLeavesBeforeWhatItHadAskedForHasComeHasNothingKept) {
  auto client = std::make_unique<ElementClient>(Place(), std::vector<std::string>(), kCrc32c);
  Element element;
  PayloadRef payload;
  Question question;
  question.allow_skip = true;  // it does not wait
  do {
    ASSERT_TRUE(client->Next("\x08\x01\x28\x01", question, &element, &payload).ok());
  } while (!element.skip);
  while (memory_.use_count() == 1) std::this_thread::yield();  // it is on its way
  client->Cancel();
  client.reset();
  EXPECT_FALSE(IsKept(seconds(20)));
}

TEST_P(ElementTransportLeaveTest, WhoIsCutOffIsGivenItAgain) {
  const std::string address = GetParam().local ? "@" + server_->local_name() : At(server_->port());
  UniqueFd fd;
  ASSERT_TRUE(StreamSocket::Connect(address, Clock::now() + seconds(5), &fd).ok());
  StreamSocket socket(std::move(fd), GetParam().local);
  std::string message;
  ASSERT_TRUE(socket.ReceiveMessage(kMostGreetingBytes, kCrc32c, &message));
  socket.Send(Framed(EncodeIntroduction({RandomBytes(kClientIdBytes), server_->id(),
                                         RandomBytes(kNonceBytes), "", ""}),
                     kCrc32c));
  ASSERT_TRUE(socket.ReceiveMessage(kMostGreetingBytes, kCrc32c, &message));
  Ask ask;
  ask.number = 1;
  ask.request = "\x08\x01";
  socket.Send(Framed(EncodeAsk(ask), kCrc32c));
  while (memory_.use_count() == 1) std::this_thread::yield();
  socket.ShutDown();
  EXPECT_TRUE(IsKept(std::chrono::milliseconds(100)));
}

INSTANTIATE_TEST_SUITE_P(Ways, ElementTransportLeaveTest,
                         ::testing::Values(Way{true, 10}, Way{true, 300000}, Way{false, 10},
                                           Way{false, 32 << 20}));

TEST(ElementTransportMemoryTest, MemoryThatIsLetGoIsUsedAgain) {
  KnownElements source(200, 300000);
  const auto server = Serve(&source);
  ElementClient client(Local(*server), {}, kCrc32c);
  std::vector<PayloadRef> kept;
  std::map<const char*, int> places;
  for (int i = 0; i < 200; ++i) {
    Element element;
    PayloadRef payload;
    ASSERT_TRUE(client.Next("\x08\x01", Question(), &element, &payload).ok());
    ASSERT_TRUE(payload != nullptr);
    ++places[payload->bytes().data()];
    if (i % 50 == 0) kept.push_back(payload);
  }
  EXPECT_LT(places.size(), 16u);
  // What somebody looks at has not been written over.
  for (size_t i = 0; i < kept.size(); ++i) {
    const char wanted = static_cast<char>('a' + static_cast<int>(50 * i) % 26);
    EXPECT_EQ(kept[i]->bytes().find_first_not_of(wanted), std::string_view::npos);
  }
}

TEST(ElementTransportMemoryTest, APayloadOutlivesItsConnectionAndWorker) {
  PayloadRef payload;
  {
    KnownElements source(5, 300000);
    const auto server = Serve(&source);
    ElementClient client(Local(*server), {}, kCrc32c);
    Element element;
    ASSERT_TRUE(client.Next("\x08\x01", Question(), &element, &payload).ok());
  }
  EXPECT_EQ(payload->bytes().find_first_not_of('a'), std::string_view::npos);
}

}  // namespace
}  // namespace tfquiver
