// Which trainers a worker lets in, and which workers a trainer goes on with.

#include <sys/socket.h>

#include <string>
#include <thread>

#include "ops/core/element_client_and_server/element_client.h"
#include "ops/core/element_client_and_server/element_server.h"
#include "ops/core/element_messages_handshake_sockets/handshake.h"
#include "ops/testing/element_worker.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

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

}  // namespace
}  // namespace tfquiver
