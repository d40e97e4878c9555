#include "ops/core/reader/reader.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include "ops/core/reader/process.h"
#include "ops/core/test_support.h"
#include "ops/core/wire/ticket_client.h"
#include "ops/testing/testing.h"

namespace tfquiver {
namespace {

constexpr int kShards = 30;
constexpr int kRecords = 40;

template <typename... T>
std::string Numbers(T... values) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
  return bytes;
}

std::string NodeFrame(uint8_t type, const std::string& payload) {
  return Numbers(uint16_t{0x5154}, uint8_t{1}, type, static_cast<uint32_t>(payload.size())) +
         payload;
}

std::string Text(const std::string& text) {
  return Numbers(static_cast<uint16_t>(text.size())) + text;
}

// A node with one session of kShards shards, on a thread of its own. `hang_ups` times it hangs up
// after an ACK.
class FakeNode {
 public:
  FakeNode() {
    // Not TempDir(): Bazel's is longer than a socket's path may be.
    std::string pattern = P_tmpdir "/tfqXXXXXX";
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = pattern + "/socket";
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    listener_ = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(listener_.get(), 4), 0);
    for (int shard = 0; shard < kShards; ++shard) {
      std::vector<std::string> records;
      for (int i = 0; i < kRecords; ++i) {
        records.push_back(std::to_string(shard) + "." + std::to_string(i) +
                          std::string(shard * 20, '-'));
        expected_.insert(records.back());
      }
      shards_.push_back(Framed(records));
      todo_.insert(static_cast<uint32_t>(shard));
    }
  }
  ~FakeNode() {
    stop_.Signal();
    if (thread_.joinable()) thread_.join();
    ::unlink(path_.c_str());
    ::rmdir(folder_.c_str());
  }
  void Start() {
    thread_ = std::thread([this] { Accept(); });
  }

  const std::string& path() const { return path_; }
  const std::set<std::string>& expected() const { return expected_; }

  int hang_ups = 0;
  bool silent = false;
  // Read after the thread has ended (Join).
  std::set<uint32_t> acked;
  int complete = -1;
  int opens = 0;
  size_t held = 0;
  void Join() {
    stop_.Signal();
    thread_.join();
  }

 private:
  bool Readable(int fd) {
    pollfd fds[2] = {{fd, POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    ::poll(fds, 2, 30'000);
    return (fds[0].revents & POLLIN) != 0;
  }

  void Accept() {
    while (Readable(listener_.get())) {
      UniqueFd peer(::accept(listener_.get(), nullptr, nullptr));
      Serve(peer.get());
    }
  }

  static void Send(int peer, const std::string& frame, int fd = -1) {
    iovec part{const_cast<char*>(frame.data()), frame.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (fd >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
    }
    ::sendmsg(peer, &message, MSG_NOSIGNAL);
  }

  void Serve(int peer) {
    int64_t credit = 0;
    int sent = 0;
    bool open = false;
    bool ended = false;
    bool drained = false;
    std::set<uint32_t> kept;
    char buffer[kMaxFrameBytes];
    while (Readable(peer)) {
      const ssize_t size = ::recv(peer, buffer, sizeof(buffer), 0);
      if (size <= 0) break;
      const std::string payload(buffer + kFrameHeaderBytes, size - kFrameHeaderBytes);
      const auto number = [&payload](size_t at) {
        uint32_t value;
        std::memcpy(&value, payload.data() + at, sizeof(value));
        return value;
      };
      switch (buffer[3]) {
        case 1:
          Send(peer, NodeFrame(2, Text("fake")));
          break;
        case 3: {
          ++opens;
          uint64_t bytes;
          std::memcpy(&bytes, payload.data() + payload.size() - 39, sizeof(bytes));
          credit = static_cast<int64_t>(bytes);
          for (uint32_t shard : leased_) {
            if (kept.count(shard) == 0) todo_.insert(shard);
          }
          leased_ = kept;
          Send(peer, NodeFrame(4, Text("s") + Numbers(uint64_t{0}, uint64_t{kShards},
                                                      uint64_t{kShards * kRecords})));
          open = true;
          break;
        }
        case 5:
          credit += static_cast<int64_t>(number(0));
          break;
        case 7:
          for (uint32_t i = 0; i < number(0); ++i) {
            acked.insert(number(4 + 4 * i));
            leased_.erase(number(4 + 4 * i));
          }
          if (hang_ups > 0 && sent >= 3) {
            --hang_ups;
            return;
          }
          break;
        case 9:
          drained = number(0) == static_cast<uint32_t>(sent);
          break;
        case 11:
          complete = payload[0];
          break;
        case 16:
          held += number(0);
          for (uint32_t i = 0; i < number(0); ++i) {
            if (acked.count(number(4 + 4 * i)) == 0) kept.insert(number(4 + 4 * i));
          }
          break;
      }
      while (open && !silent && credit > 0 && !todo_.empty()) {
        const uint32_t shard = *todo_.begin();
        todo_.erase(todo_.begin());
        leased_.insert(shard);
        const std::string& bytes = shards_[shard];
        credit -= static_cast<int64_t>(bytes.size());
        ++sent;
        const bool sealed = shard % 2 == 0;
        Send(peer,
             NodeFrame(6, Numbers(shard, static_cast<uint8_t>(sealed), uint64_t{0},
                                  uint64_t{bytes.size()}, SlowCrc32c(0, bytes.data(), bytes.size()),
                                  uint32_t{kRecords}, uint32_t{0}, uint64_t{0}, uint32_t{0},
                                  uint32_t{0}, uint32_t{0})),
             Memory(bytes, sealed).get());
      }
      if (open && !ended && todo_.empty() && (leased_.empty() || drained)) {
        ended = true;
        Send(peer, NodeFrame(10, ""));
      }
    }
  }

  std::string folder_;
  std::string path_;
  UniqueFd listener_;
  WakeFd stop_;
  std::thread thread_;
  std::vector<std::string> shards_;
  std::set<std::string> expected_;
  std::set<uint32_t> todo_;
  std::set<uint32_t> leased_;
};

class ReaderTest : public ::testing::Test {
 protected:
  void Make(int64_t shuffle_bytes, int64_t reconnect_ms = 10'000) {
    Options options;
    options.shuffle_bytes = shuffle_bytes;
    options.readahead_bytes = 20'000;
    options.reconnect_ms = reconnect_ms;
    SessionOptions session;
    session.digest_id = std::string(kIdBytes, 'd');
    session.reader_id = UniqueId();
    ReaderParts parts;
    parts.crc = &SlowCrc32c;
    parts.blobs = &blobs_;
    parts.warn = [](const std::string&) {};
    parts.socket_path = [this] { return node_.path(); };
    reader_ = std::make_unique<Reader>(options, session, Checkpoint{}, std::move(parts));
    thread_ = std::thread([this] { reader_->Run(); });
  }
  void Finish() {
    reader_->Stop();
    thread_.join();
    reader_.reset();
    node_.Join();
  }
  // All records until the end, counted.
  std::map<std::string, int> ReadAll(size_t batch) {
    std::map<std::string, int> counts;
    bool end = false;
    Drawn drawn;
    while (!end) {
      const Status status = reader_->pool().Draw(batch, &drawn, &end);
      EXPECT_TRUE(status.ok()) << status.message();
      if (!status.ok()) break;
      if (drawn.records.empty()) break;
      for (const Record& record : drawn.records) ++counts[blobs_.Text(record)];
      reader_->pool().Release(&drawn);
      if (end) reader_->pool().Draw(1, &drawn, &end).ok();
    }
    return counts;
  }
  void ExpectEachOnce(const std::map<std::string, int>& counts) {
    EXPECT_EQ(counts.size(), node_.expected().size());
    for (const auto& [record, count] : counts) EXPECT_EQ(count, 1) << record;
  }

  StringBlobs blobs_;
  FakeNode node_;
  std::unique_ptr<Reader> reader_;
  std::thread thread_;
};

TEST_F(ReaderTest, ReadsASession) {
  node_.Start();
  Make(50'000);
  ExpectEachOnce(ReadAll(8));
  Finish();
  EXPECT_EQ(node_.acked.size(), static_cast<size_t>(kShards));
  EXPECT_EQ(node_.complete, 1);
}

TEST_F(ReaderTest, AnUnfinishedBatchDoesNotKeepTheSessionOpen) {
  node_.Start();
  Make(50'000);
  ExpectEachOnce(ReadAll(7));
  Finish();
  EXPECT_LT(node_.acked.size(), static_cast<size_t>(kShards));
  EXPECT_EQ(node_.complete, 1);
}

TEST_F(ReaderTest, GoesOnWhenTheNodeComesBack) {
  node_.hang_ups = 2;
  node_.Start();
  Make(50'000);
  ExpectEachOnce(ReadAll(1));
  Finish();
  EXPECT_EQ(node_.opens, 3);
  EXPECT_GT(node_.held, 0u);
  EXPECT_EQ(node_.complete, 1);
}

TEST_F(ReaderTest, GivesUpWhenTheNodeStaysAway) {
  node_.silent = true;
  Make(0, /*reconnect_ms=*/0);  // the node listens, and nobody accepts
  std::thread stopper([this] { reader_->pool().CancelDraw(); });
  stopper.join();
  reader_->Stop();
  thread_.join();
  reader_.reset();
  node_.Start();
}

TEST_F(ReaderTest, StopsWhileItWaits) {
  node_.silent = true;
  node_.Start();
  Make(50'000);
  Drawn drawn;
  bool end = false;
  const auto cancel = [this] { reader_->pool().CancelDraw(); };
  EXPECT_EQ(reader_->pool().Draw(1, &drawn, &end, cancel).code(), Code::kCancelled);
  Finish();
  EXPECT_NE(node_.complete, 1);
}

TEST_F(ReaderTest, StopsInTheMiddle) {
  node_.Start();
  Make(50'000);
  Drawn drawn;
  bool end = false;
  ASSERT_TRUE(reader_->pool().Draw(100, &drawn, &end).ok());
  for (const Record& record : drawn.records) blobs_.Text(record);
  reader_->pool().Release(&drawn);
  Finish();
  EXPECT_EQ(node_.complete, 0);
}

TEST(TicketClient, NobodyThere) {
  TicketReply reply;
  const auto limit = std::chrono::milliseconds(100);
  EXPECT_EQ(AskForTicket("", "", TicketFields{}, limit, &reply).code(), Code::kUnavailable);
  EXPECT_EQ(AskForTicket("/nonexistent/socket", "", TicketFields{}, limit, &reply).code(),
            Code::kUnavailable);
}

TEST(TicketClient, AnswersInTimeWhenTheNodeDoesNot) {
  FakeNode node;  // listens, accepts nothing
  TicketReply reply;
  TicketFields ticket;
  ticket.digest_id = std::string(kIdBytes, 'd');
  const Status status =
      AskForTicket(node.path(), "", ticket, std::chrono::milliseconds(50), &reply);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("no ticket in time"), std::string::npos);
}

TEST(SlowNodes, AreNotAskedForAWhileAndThenProbedByOne) {
  using std::chrono::milliseconds;
  SlowNodes slow;
  const Clock::time_point start{};
  const milliseconds limit(1000);
  EXPECT_EQ(slow.Limit("a", start, limit), limit);
  slow.Called("a", start + limit, true);
  EXPECT_EQ(slow.Limit("a", start + limit + SlowNodes::kPause / 2, limit), milliseconds(0));
  EXPECT_EQ(slow.Limit("b", start + limit, limit), limit);
  const auto later = start + limit + SlowNodes::kPause;
  EXPECT_EQ(slow.Limit("a", later, limit), SlowNodes::kProbe);
  EXPECT_EQ(slow.Limit("a", later, limit), milliseconds(0));
  slow.Called("a", later + SlowNodes::kProbe, true);
  EXPECT_EQ(slow.Limit("a", later + SlowNodes::kProbe, limit), milliseconds(0));
  const auto at_last = later + SlowNodes::kProbe + SlowNodes::kPause;
  EXPECT_EQ(slow.Limit("a", at_last, limit), SlowNodes::kProbe);
  slow.Called("a", at_last, false);
  EXPECT_EQ(slow.Limit("a", at_last, limit), limit);
}

// A trainer's forked children (loaders, loggers) live on when it is killed: its node must not take
// them for it.
TEST(UnixSocketTest, AForkedChildDoesNotKeepTheConnection) {
  UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
  std::string path = P_tmpdir "/tfqforkXXXXXX";
  ASSERT_NE(::mkdtemp(path.data()), nullptr);
  const std::string socket_path = path + "/s";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_path.data(), socket_path.size());
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  UnixSocket socket;
  ASSERT_TRUE(UnixSocket::Connect(socket_path, &socket).ok());
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
  ::unlink(socket_path.c_str());
  ::rmdir(path.c_str());
}

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

TEST(UniqueId, Differs) { EXPECT_NE(UniqueId(), UniqueId()); }

}  // namespace
}  // namespace tfquiver
