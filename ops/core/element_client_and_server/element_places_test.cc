// Who has a place at a worker where there are more trainers than places.

#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ops/testing/element_worker.h"

namespace tfquiver {
namespace {

// Connected and let in.
std::unique_ptr<StreamSocket> LetIn(const ElementServer& server,
                                    std::string client_id = RandomBytes(kClientIdBytes)) {
  UniqueFd fd;
  if (!StreamSocket::Connect(At(server.port()), Clock::now() + seconds(5), &fd).ok())
    return nullptr;
  auto socket = std::make_unique<StreamSocket>(std::move(fd), false);
  std::string message;
  const auto deadline = Clock::now() + seconds(20);
  socket->ReceiveMessageBefore(deadline, kMostGreetingBytes, kCrc32c, &message);
  socket->Send(Framed(
      EncodeIntroduction({std::move(client_id), server.id(), RandomBytes(kNonceBytes), "", ""}),
      kCrc32c));
  if (!socket->ReceiveMessageBefore(deadline, kMostGreetingBytes, kCrc32c, &message)) {
    return nullptr;
  }
  return socket;
}

bool IsClosed(StreamSocket* socket) {
  const auto give_up = Clock::now() + seconds(20);
  std::string message;
  return !socket->ReceiveMessageBefore(give_up, 1, kCrc32c, &message) && Clock::now() < give_up;
}

TEST(ElementTransportPlacesTest, WhoSaysNothingMakesPlaceForWhoDoes) {
  KnownElements source(5, 10);
  ServerLimits limits;
  limits.connections = 4;
  limits.idle_after = Clock::duration::zero();
  const auto server = Serve(&source, {}, 0, RandomBytes(kWorkerIdBytes), limits);
  ElementClient good(ByTcp(*server), {}, kCrc32c);
  Element element;
  PayloadRef payload;
  ASSERT_TRUE(good.Next("\x08\x01", Question(), &element, &payload).ok());
  std::vector<std::unique_ptr<StreamSocket>> silent;
  const auto give_up = Clock::now() + seconds(60);
  for (int i = 0; i < 12; ++i) {
    std::unique_ptr<StreamSocket> let_in;
    // Refused while threads of those that were dropped have not ended, as on a busy machine.
    while (let_in == nullptr && Clock::now() < give_up) let_in = LetIn(*server);
    ASSERT_TRUE(let_in != nullptr) << i;
    silent.push_back(std::move(let_in));
  }
  // Which of two neighbours has been silent for longer their threads say, which a busy machine
  // wakes in any order.
  const auto closed = [&silent] {
    return std::count_if(silent.begin(), silent.end(),
                         [](const auto& one) { return one->Readable(); });
  };
  while (closed() < 8 && Clock::now() < give_up) std::this_thread::yield();
  EXPECT_EQ(closed(), 8);
  EXPECT_FALSE(silent[11]->Readable());
  // Its own connection has made place, too: nothing of what it had asked for is lost by that.
  EXPECT_EQ(element.index, 0);
  EXPECT_EQ(Drain(&good, 10), (std::vector<int64_t>{1, 2, 3, 4}));
}

void AskForTheFirst(StreamSocket* socket) {
  Ask ask;
  ask.number = 1;
  ask.request = "\x08\x01";
  socket->Send(Framed(EncodeAsk(ask), kCrc32c));
}

// The element of so many bytes that comes first, or its end, to whom this is; which leaves then.
Element FirstOf(const ElementServer& server, const std::string& id, size_t size_bytes) {
  const auto socket = LetIn(server, id);
  std::string message;
  Element element;
  if (socket == nullptr) return element;
  AskForTheFirst(socket.get());
  EXPECT_TRUE(socket->ReceiveMessage(kMostElementBytes, kCrc32c, &message));
  EXPECT_TRUE(DecodeElement(message, &element));
  std::string bytes(size_bytes, ' ');
  EXPECT_TRUE(element.end_of_sequence || socket->Receive(bytes.data(), size_bytes));
  socket->Send(Framed("no question", kCrc32c));
  EXPECT_TRUE(IsClosed(socket.get()));
  return element;
}

TEST(ElementTransportPlacesTest, WhoTakesNothingOfWhatItAskedForMakesPlace) {
  constexpr size_t kBytes = 16 << 20;  // more than the kernel takes for somebody who does not read
  KnownElements source(6, kBytes);
  ServerLimits limits;
  limits.connections = 4;
  limits.idle_after = std::chrono::milliseconds(500);
  const auto server = Serve(&source, {}, 0, RandomBytes(kWorkerIdBytes), limits);
  const std::string first_id = RandomBytes(kClientIdBytes);
  std::vector<std::unique_ptr<StreamSocket>> asking;
  for (int i = 0; i < 4; ++i) {
    asking.push_back(i == 0 ? LetIn(*server, first_id) : LetIn(*server));
    ASSERT_TRUE(asking.back() != nullptr) << i;
    AskForTheFirst(asking.back().get());
    std::string one(1, ' ');
    ASSERT_TRUE(asking.back()->Receive(one.data(), 1)) << i;  // it has begun to come
  }
  ElementClient good(ByTcp(*server), {}, kCrc32c);
  EXPECT_EQ(Drain(&good, kBytes), (std::vector<int64_t>{4, 5}));
  // What it had not taken is still its own.
  std::unique_ptr<StreamSocket> again;
  const auto give_up = Clock::now() + seconds(60);
  while (again == nullptr && Clock::now() < give_up) again = LetIn(*server, first_id);
  ASSERT_TRUE(again != nullptr);
  AskForTheFirst(again.get());
  std::string message;
  Element element;
  ASSERT_TRUE(again->ReceiveMessage(kMostElementBytes, kCrc32c, &message));
  ASSERT_TRUE(DecodeElement(message, &element));
  EXPECT_EQ(element.index, 0);
}

// A peer that takes a little now and then: the kernel takes no more for it before there is room.
TEST(ElementTransportPlacesTest, WhoIsSlowIsSeenToTakeSomething) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  StreamSocket near(UniqueFd(ends[0]), true);
  StreamSocket far(UniqueFd(ends[1]), true);
  std::atomic<Clock::time_point> taken_at{Clock::time_point::min()};
  near.NoteTaken(&taken_at, std::chrono::milliseconds(20));
  auto sent = std::async(std::launch::async, [&] { return near.Send(std::string(4 << 20, 's')); });
  const auto give_up = Clock::now() + seconds(20);
  const auto moves_from = [&](Clock::time_point before) {
    while (taken_at.load() == before && Clock::now() < give_up) std::this_thread::yield();
    return taken_at.load() != before;
  };
  ASSERT_TRUE(moves_from(Clock::time_point::min()));  // it is stuck now
  std::string some(40 << 10, ' ');
  const auto before = taken_at.load();
  ASSERT_TRUE(far.Receive(some.data(), some.size()));
  EXPECT_TRUE(moves_from(before));
  far.ShutDown();
  EXPECT_FALSE(sent.get());
}

TEST(ElementTransportPlacesTest, WhoComesWhereThereIsNoThreadToSpareComesAgain) {
  KnownElements source(3, 10);
  const auto server = Serve(&source);
  pthread_attr_t usual;
  pthread_attr_t too_large;  // as where a container may have no more threads
  ASSERT_EQ(pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(pthread_attr_init(&too_large), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&too_large, size_t{1} << 47), 0);
  ASSERT_EQ(pthread_setattr_default_np(&too_large), 0);
  EXPECT_TRUE(LetIn(*server) == nullptr);
  ASSERT_EQ(pthread_setattr_default_np(&usual), 0);
  ElementClient client(ByTcp(*server), {}, kCrc32c);
  EXPECT_EQ(Drain(&client, 10), UpTo(3));
}

TEST(ElementTransportPlacesTest, WhoseTaskHasEndedIsForgottenBeforeWhoIsOwedAnElement) {
  KnownElements source(1, 10);
  ServerLimits limits;
  limits.clients = 2;
  const auto server = Serve(&source, {}, 0, RandomBytes(kWorkerIdBytes), limits);
  const std::string owed = RandomBytes(kClientIdBytes);
  const auto first_of = [&](const std::string& id) { return FirstOf(*server, id, 10); };
  EXPECT_FALSE(first_of(owed).end_of_sequence);
  EXPECT_TRUE(first_of(RandomBytes(kClientIdBytes)).end_of_sequence);
  EXPECT_TRUE(first_of(RandomBytes(kClientIdBytes)).end_of_sequence);  // takes the place of one
  const Element again = first_of(owed);
  EXPECT_FALSE(again.end_of_sequence);
  EXPECT_EQ(again.index, 0);
}

// As of a trainer that is killed and begun again, again and again.
TEST(ElementTransportPlacesTest, OfThoseThatAreGoneSoMuchIsKeptAndTheLastOnes) {
  constexpr size_t kBytes = 10000;
  KnownElements source(1000, kBytes);
  ServerLimits limits;
  limits.kept_bytes = 3 * kBytes + 1000;
  const auto server = Serve(&source, {}, 0, RandomBytes(kWorkerIdBytes), limits);
  const auto first_of = [&](const std::string& id) { return FirstOf(*server, id, kBytes); };
  std::vector<std::string> ids;
  for (int i = 0; i < 10; ++i) {
    ids.push_back(RandomBytes(kClientIdBytes));
    EXPECT_EQ(first_of(ids.back()).index, i);
  }
  for (int i = 7; i < 10; ++i) EXPECT_EQ(first_of(ids[static_cast<size_t>(i)]).index, i);
  EXPECT_EQ(first_of(ids[0]).index, 10);  // another one: what it had is not kept
}

TEST(ElementTransportPlacesTest, WhoIsServedOrNotIdleYetKeepsItsPlace) {
  KnownElements source(5, 10);
  ServerLimits limits;
  limits.connections = 1;
  limits.idle_after = Clock::duration::zero();
  auto server = Serve(&source, {}, 0, RandomBytes(kWorkerIdBytes), limits);
  source.Block(true);
  ElementClient served(ByTcp(*server), {}, kCrc32c);
  auto elements = std::async(std::launch::async, [&] { return Drain(&served, 10); });
  source.AwaitAsked();
  EXPECT_TRUE(LetIn(*server) == nullptr);
  source.Block(false);
  EXPECT_EQ(elements.get(), UpTo(5));

  limits.idle_after = seconds(1000);
  server = Serve(&source, {}, 0, RandomBytes(kWorkerIdBytes), limits);
  const auto first = LetIn(*server);
  ASSERT_TRUE(first != nullptr);
  EXPECT_TRUE(LetIn(*server) == nullptr);
  EXPECT_FALSE(first->Readable());
}

TEST(ElementTransportPlacesTest, WhoIsNotLetInYetMakesPlaceBeforeWhoIs) {
  KnownElements source(5, 10);
  ServerLimits limits;
  limits.connections = 3;
  limits.idle_after = limits.stranger_idle_after = Clock::duration::zero();
  const auto server = Serve(&source, {}, 0, RandomBytes(kWorkerIdBytes), limits);
  const auto trainer = LetIn(*server);
  ASSERT_TRUE(trainer != nullptr);
  std::vector<UniqueFd> strangers;
  const auto give_up = Clock::now() + seconds(60);
  for (int i = 0; i < 20; ++i) {
    UniqueFd fd;
    ASSERT_TRUE(StreamSocket::Connect(At(server->port()), Clock::now() + seconds(5), &fd).ok());
    strangers.push_back(std::move(fd));
  }
  std::unique_ptr<StreamSocket> other;
  while (other == nullptr && Clock::now() < give_up) other = LetIn(*server);
  EXPECT_TRUE(other != nullptr);
  EXPECT_FALSE(trainer->Readable());
}

TEST(ElementTransportPlacesTest, WhoHasNoTimeToIntroduceItselfKeepsItsPlace) {
  KnownElements source(5, 10);
  ServerLimits limits;
  limits.connections = 1;
  limits.idle_after = Clock::duration::zero();
  limits.stranger_idle_after = seconds(1000);
  const auto server = Serve(&source, {}, 0, RandomBytes(kWorkerIdBytes), limits);
  UniqueFd fd;
  ASSERT_TRUE(StreamSocket::Connect(At(server->port()), Clock::now() + seconds(5), &fd).ok());
  StreamSocket stranger(std::move(fd), false);
  std::string message;
  ASSERT_TRUE(stranger.ReceiveMessage(kMostGreetingBytes, kCrc32c, &message));
  EXPECT_TRUE(LetIn(*server) == nullptr);
  EXPECT_FALSE(stranger.Readable());
}

TEST(ElementTransportPlacesTest, OfThoseThatAreGoneTheLastOnesAreRemembered) {
  KnownElements source(1000, 10);
  ServerLimits limits;
  limits.clients = 4;
  const auto server = Serve(&source, {}, 0, RandomBytes(kWorkerIdBytes), limits);
  // Those that never ask are not remembered at all.
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(LetIn(*server) != nullptr) << i;
  }
  // Those that have asked make place for others.
  for (int i = 0; i < 20; ++i) {
    ElementClient client(ByTcp(*server), {}, kCrc32c);
    Element element;
    PayloadRef payload;
    ASSERT_TRUE(client.Next("\x08\x01", Question(), &element, &payload).ok()) << i;
  }
}

}  // namespace
}  // namespace tfquiver
