#ifndef TFQUIVER_OPS_TESTING_TEST_READER_H_
#define TFQUIVER_OPS_TESTING_TEST_READER_H_

// A reader, and a node that it reads from, for tests.

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ops/core/reader_and_its_conversation_with_the_node/reader.h"
#include "ops/core/told_by_python/process.h"
#include "ops/testing/test_listener.h"
#include "ops/testing/test_support.h"
#include "ops/testing/testing.h"

namespace tfquiver {

// Numbers, one after the other, as they lie in memory.
template <typename... T>
std::string AsBytes(T... values) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&values), sizeof(values)), ...);
  return bytes;
}

// What this process's was before.
inline rlim_t DescriptorLimit(rlim_t limit, bool set = true) {
  rlimit now{};
  ::getrlimit(RLIMIT_NOFILE, &now);
  const rlim_t before = now.rlim_cur;
  now.rlim_cur = limit;
  if (set) ::setrlimit(RLIMIT_NOFILE, &now);
  return before;
}

// A node with one session of kShards shards, on a thread of its own. `hang_ups` times it hangs up
// after an ACK.
class FakeNode {
 public:
  static constexpr int kShards = 30;
  static constexpr int kRecords = 40;

  FakeNode() {
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
  }
  void Start() {
    thread_ = std::thread([this] { Accept(); });
  }

  const std::string& path() const { return listener_.path(); }
  const std::set<std::string>& expected() const { return expected_; }

  int hang_ups = 0;
  bool starves = false;  // when it sends a shard for the first time, no descriptor is to be had
  int takes_back = -1;   // this shard is another reader's as soon as it was sent
  WakeFd has_taken_back;
  bool silent = false;
  int hangs = 0;  // on so many connections: after the first PING, and later from the beginning
  uint32_t report_ms = 0;  // 0: as nodes that do not know of reports
  // Read after the thread has ended (Join).
  std::set<uint32_t> acked;
  int complete = -1;
  int opens = 0;
  size_t held = 0;
  std::vector<std::string> reports;
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

  static std::string Frame(uint8_t type, const std::string& payload) {
    return AsBytes(uint16_t{0x5154}, uint8_t{1}, type, static_cast<uint32_t>(payload.size())) +
           payload;
  }
  static std::string Text(const std::string& text) {
    return AsBytes(static_cast<uint16_t>(text.size())) + text;
  }
  static void Send(int peer, const std::string& frame, int fd = -1) {
    ::sendmsg(peer, FrameMessage(frame, fd).get(), MSG_NOSIGNAL);
  }

  void Serve(int peer) {
    int64_t credit = 0;
    int sent = 0;
    bool open = false;
    bool ended = false;
    bool drained = false;
    bool mute = hangs > 0 && hung_;
    std::set<uint32_t> kept;
    char buffer[kMaxFrameBytes];
    while (Readable(peer)) {
      const ssize_t size = ::recv(peer, buffer, sizeof(buffer), 0);
      if (size <= 0) break;
      if (mute) continue;
      const std::string payload(buffer + kFrameHeaderBytes, size - kFrameHeaderBytes);
      const auto number = [&payload](size_t at) {
        uint32_t value;
        std::memcpy(&value, payload.data() + at, sizeof(value));
        return value;
      };
      if (buffer[3] == 22) reports.push_back(payload);
      switch (buffer[3]) {
        case 1:
          Send(peer, Frame(2, Text("fake")));
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
          Send(peer, Frame(4, Text("s") + AsBytes(uint64_t{0}, uint64_t{kShards},
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
        case 15:
          if (report_ms > 0) Send(peer, Frame(21, AsBytes(report_ms)));
          if (hangs > 0) {
            --hangs;
            mute = hung_ = true;
          }
          break;
        case 16:
          held += number(0);
          for (uint32_t i = 0; i < number(0); ++i) {
            if (acked.count(number(4 + 4 * i)) == 0) kept.insert(number(4 + 4 * i));
          }
          break;
      }
      while (open && !silent && !mute && credit > 0 && !todo_.empty()) {
        const uint32_t shard = *todo_.begin();
        todo_.erase(todo_.begin());
        leased_.insert(shard);
        const std::string& bytes = shards_[shard];
        credit -= static_cast<int64_t>(bytes.size());
        ++sent;
        const bool sealed = shard % 2 == 0;
        const UniqueFd memory = Memory(bytes, sealed);
        const bool starve = std::exchange(starves, false);
        if (starve) DescriptorLimit(3);
        Send(peer,
             Frame(6,
                   AsBytes(shard, static_cast<uint8_t>(sealed), uint64_t{0}, uint64_t{bytes.size()},
                           SlowCrc32c(0, bytes.data(), bytes.size()), uint32_t{kRecords},
                           uint32_t{0}, uint64_t{0}, uint32_t{0}, uint32_t{0}, uint32_t{0})),
             memory.get());
        if (takes_back == static_cast<int>(shard)) {
          leased_.erase(shard);
          Send(peer, Frame(17, AsBytes(uint32_t{1}, shard)));
          has_taken_back.Signal();
        }
        if (starve) {
          while (Readable(peer) && ::recv(peer, buffer, sizeof(buffer), 0) > 0) {
          }
          return;
        }
      }
      if (open && !mute && !ended && todo_.empty() && (leased_.empty() || drained)) {
        ended = true;
        Send(peer, Frame(10, ""));
      }
    }
  }

  TestListener listener_;
  WakeFd stop_;
  std::thread thread_;
  std::vector<std::string> shards_;
  std::set<std::string> expected_;
  std::set<uint32_t> todo_;
  std::set<uint32_t> leased_;
  bool hung_ = false;
};

class ReaderTest : public ::testing::Test {
 protected:
  void Make(int64_t shuffle_bytes, int64_t reconnect_ms = 10'000, int64_t silence_ms = 20'000) {
    Options options;
    options.shuffle_bytes = shuffle_bytes;
    options.readahead_bytes = readahead_bytes_;
    options.connect_ms = connect_ms_;
    options.reconnect_ms = reconnect_ms;
    SessionOptions session;
    session.digest_id = std::string(kIdBytes, 'd');
    session.reader_id = UniqueId();
    session.silence = std::chrono::milliseconds(silence_ms);
    ReaderParts parts;
    parts.crc = &SlowCrc32c;
    parts.blobs = &blobs_;
    parts.warn = [this](const std::string& message) { on_warning_(message); };
    parts.way = {[this] { return node_.path(); },
                 [this](const std::string&, int) { return is_told_(); }};
    parts.opened = [this](int64_t) { on_opened_(); };
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
  int64_t readahead_bytes_ = 20'000;
  int64_t connect_ms_ = 10'000;
  // On the reader's thread.
  std::function<void(const std::string&)> on_warning_ = [](const std::string&) {};
  std::function<bool()> is_told_ = [] { return true; };
  std::function<void()> on_opened_ = [] {};
  std::unique_ptr<Reader> reader_;
  std::thread thread_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TESTING_TEST_READER_H_
