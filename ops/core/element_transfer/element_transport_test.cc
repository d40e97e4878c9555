// The worker's end and the trainer's, joined by real sockets.

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "ops/core/element_transfer/element_client.h"
#include "ops/core/element_transfer/element_server.h"
#include "ops/core/element_transfer/shared_memory.h"
#include "ops/core/element_wire/handshake.h"
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

TEST(ElementTransportTokenTest, TokensThatDoNotFitAreRefused) {
  KnownElements source(3, 10);
  const auto server = Serve(&source, {KeyOfToken("right")});
  ElementClient wrong(ByTcp(*server), {KeyOfToken("wrong")}, kCrc32c);
  EXPECT_TRUE(wrong.Connect(Clock::now() + seconds(5)).code() == Code::kUnauthenticated);
  ElementClient none(Local(*server), {}, kCrc32c);
  EXPECT_TRUE(none.Connect(Clock::now() + seconds(5)).code() == Code::kUnauthenticated);
  ElementClient right(ByTcp(*server), {KeyOfToken("right")}, kCrc32c);
  EXPECT_EQ(Drain(&right, 10), UpTo(3));
}

Code NextCode(ElementClient* client) {
  Element element;
  PayloadRef payload;
  const Status status = client->Next("\x08\x01", Question(), &element, &payload);
  return status.ok() ? element.code : status.code();
}

TEST(ElementTransportIdentityTest, AWorkerThatCameToTheAddressIsNotRead) {
  KnownElements before(10, 10);
  auto server = Serve(&before);
  ElementClient client(ByTcp(*server), {}, kCrc32c);
  ASSERT_TRUE(NextCode(&client) == Code::kOk);
  const int port = server->port();
  server.reset();
  KnownElements other(10, 10);
  server = Serve(&other, {}, port);
  ASSERT_EQ(server->port(), port);
  Code code;
  while ((code = NextCode(&client)) == Code::kUnavailable) {  // what it had asked for was lost
  }
  EXPECT_TRUE(code == Code::kNotFound);
  EXPECT_EQ(other.given(), 0);
  ElementClient knows_it(ByTcp(*server), {}, kCrc32c);
  EXPECT_EQ(Drain(&knows_it, 10), UpTo(10));
}

TEST(ElementTransportIdentityTest, AWorkerThatReturnsToItsAddressGoesOn) {
  KnownElements before(10, 10);
  auto server = Serve(&before);
  ElementClient client(ByTcp(*server), {}, kCrc32c);
  ASSERT_TRUE(NextCode(&client) == Code::kOk);
  const int port = server->port();
  const std::string id = server->id();
  server.reset();
  KnownElements after(10, 10);
  server = Serve(&after, {}, port, id);
  EXPECT_EQ(Drain(&client, 10), UpTo(10));
}

TEST(ElementTransportIdentityTest, WithATokenAnotherWorkersTrainerIsToldSoOnceItHasProvenIt) {
  KnownElements source(3, 10);
  const auto server = Serve(&source, {KeyOfToken("right")});
  ElementPlace other = ByTcp(*server);
  other.worker_id = RandomBytes(kWorkerIdBytes);
  ElementClient wrong(other, {KeyOfToken("wrong")}, kCrc32c);
  EXPECT_TRUE(NextCode(&wrong) == Code::kUnauthenticated);
  ElementClient right(other, {KeyOfToken("right")}, kCrc32c);
  EXPECT_TRUE(NextCode(&right) == Code::kNotFound);
  EXPECT_EQ(source.given(), 0);
}

// As the first version's trainers do, who name no worker: they go on by gRPC at a "-".
TEST(ElementTransportIdentityTest, TheFirstVersionsTrainersAreToldNo) {
  KnownElements source(3, 10);
  const auto server = Serve(&source);
  UniqueFd fd;
  ASSERT_TRUE(StreamSocket::Connect(At(server->port()), Clock::now() + seconds(5), &fd).ok());
  StreamSocket socket(std::move(fd), false);
  std::string message;
  ASSERT_TRUE(socket.ReceiveMessage(kMostGreetingBytes, kCrc32c, &message));
  EXPECT_EQ(message.substr(0, 5), std::string("TFQE\x01", 5));  // which they can read
  EXPECT_EQ(message.size(), 5u + 32 + 1);
  socket.Send(Framed(
      "TFQI\x01" + std::string(16, 'c') + std::string(32, 'n') + std::string(2, '\0'), kCrc32c));
  ASSERT_TRUE(socket.ReceiveMessage(kMostGreetingBytes, kCrc32c, &message));
  EXPECT_EQ(message, "-");
  EXPECT_FALSE(socket.ReceiveMessage(kMostGreetingBytes, kCrc32c, &message));
}

TEST(ElementTransportIdentityTest, AWorkerThatHangsUpOnEveryIntroductionIsGivenUp) {
  int port;
  UniqueFd listener = StreamSocket::ListenTcp(0, &port);
  std::thread first_version([&] {
    for (int i = 0; i < 3; ++i) {
      StreamSocket socket(UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)),
                          false);
      std::string message;
      socket.Send(Framed(EncodeGreeting({RandomBytes(kNonceBytes), {}}), kCrc32c));
      socket.ReceiveMessage(kMostGreetingBytes, kCrc32c, &message);
      socket.ShutDown();
    }
  });
  ElementClient client({"", At(port), RandomBytes(kWorkerIdBytes)}, {}, kCrc32c);
  EXPECT_TRUE(NextCode(&client) == Code::kUnavailable);
  EXPECT_TRUE(NextCode(&client) == Code::kUnavailable);
  EXPECT_TRUE(NextCode(&client) == Code::kNotFound);
  first_version.join();
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

TEST(ElementTransportStopTest, AMachineThatAcknowledgesNothingIsGivenUp) {
  int port = 0;
  const UniqueFd listening = StreamSocket::ListenTcp(0, &port);
  UniqueFd fd;
  ASSERT_TRUE(StreamSocket::Connect(At(port), Clock::now() + seconds(5), &fd).ok());
  unsigned silence_ms = 0;
  socklen_t size = sizeof(silence_ms);
  ASSERT_EQ(::getsockopt(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, &size), 0);
  EXPECT_EQ(silence_ms, 30'000);
}

TEST(ElementTransportStopTest, WhoTakesNothingIsNotGone) {
  int port = 0;
  const UniqueFd listening = StreamSocket::ListenTcp(0, &port);
  UniqueFd fd;
  ASSERT_TRUE(StreamSocket::Connect(At(port), Clock::now() + seconds(5), &fd).ok());
  StreamSocket busy(UniqueFd(::accept(listening.get(), nullptr, nullptr)), false);
  std::atomic<Clock::time_point> taken_at{Clock::now()};
  busy.NoteTaken(&taken_at, std::chrono::milliseconds(10));
  std::thread sending([&busy] { busy.Send(std::string(size_t{64} << 20, 'x')); });
  EXPECT_FALSE(busy.PeerIsGone());
  busy.ShutDown();
  sending.join();
  // As Linux told of one whose machine had gone while it was sent to, and of one that takes
  // nothing.
  EXPECT_TRUE(StreamSocket::IsGone(7, 30'012));
  EXPECT_FALSE(StreamSocket::IsGone(6, 25'012));
  EXPECT_FALSE(StreamSocket::IsGone(0, 52'704));
  EXPECT_FALSE(StreamSocket::IsGone(1, 52'704));
}

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

TEST(ElementTransportMemoryTest, MemoryThatMayShrinkIsNotMapped) {
  UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(fd.get(), 4096), 0);
  EXPECT_TRUE(Mapping::Map(fd, 4096) == nullptr);
  const auto sealed = ElementMemory::Make(4096);
  UniqueFd copy(::dup(sealed->fd()));
  EXPECT_TRUE(Mapping::Map(copy, 4096) != nullptr);
  EXPECT_TRUE(Mapping::Map(copy, 8192) == nullptr);
  EXPECT_NE(::ftruncate(copy.get(), 0), 0);
}

TEST(ElementTransportGarbageTest, GarbageEndsAConnectionAndNothingElse) {
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
TEST(ElementTransportGarbageTest, AWorkerThatSaysNonsenseIsALostConnection) {
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

}  // namespace
}  // namespace tfquiver
