#ifndef TFQUIVER_OPS_TESTING_ELEMENT_WORKER_H_
#define TFQUIVER_OPS_TESTING_ELEMENT_WORKER_H_

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/bytes_checksums_tfrecords/crc32c.h"
#include "ops/core/element_client_and_server/element_client.h"
#include "ops/core/element_client_and_server/element_server.h"
#include "ops/core/element_messages_handshake_sockets/handshake.h"
#include "ops/testing/testing.h"

// A worker whose elements are known, and a trainer that reads them.
namespace tfquiver {

using std::chrono::seconds;

// Elements have many bytes, and without optimization the portable one takes longer than all else.
inline const Crc32cExtend kCrc32c = FastestCrc32c(&PortableCrc32c);

// Elements of one string component with `size` bytes, of which the last is the end.
class KnownElements {
 public:
  explicit KnownElements(int count, size_t size) : count_(count), size_(size) {}

  void Fetch(std::string_view, Outgoing* element) {
    std::unique_lock<std::mutex> lock(mu_);
    ++asked_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !blocked_; });
    if (given_ == count_) {
      element->head.end_of_sequence = true;
      return;
    }
    Outgoing::Bytes bytes;
    bytes.own = std::string(size_, static_cast<char>('a' + given_ % 26));
    element->bytes.push_back(std::move(bytes));
    element->head.components.push_back({Component::kRaw, 1, {static_cast<int64_t>(size_)}, 0, 0});
    element->head.index = given_++;
  }
  void Block(bool blocked) {
    std::lock_guard<std::mutex> lock(mu_);
    blocked_ = blocked;
    changed_.notify_all();
  }
  void AwaitAsked() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [this] { return asked_ > 0; });
  }
  int given() {
    std::lock_guard<std::mutex> lock(mu_);
    return given_;
  }

 private:
  const int count_;
  const size_t size_;
  std::mutex mu_;
  std::condition_variable changed_;
  bool blocked_ = false;
  int asked_ = 0;
  int given_ = 0;
};

inline std::unique_ptr<ElementServer> Serve(KnownElements* source,
                                            std::vector<std::string> keys = {}, int port = 0,
                                            std::string id = RandomBytes(kWorkerIdBytes),
                                            ServerLimits limits = {}) {
  auto server = std::make_unique<ElementServer>(
      std::move(keys), kCrc32c,
      [source](std::string_view request, Outgoing* element) { source->Fetch(request, element); },
      limits);
  EXPECT_TRUE(server->Start(port, std::move(id)).ok());
  return server;
}

inline std::string At(int port) { return "127.0.0.1:" + std::to_string(port); }

inline ElementPlace ByTcp(const ElementServer& server) {
  return {"", At(server.port()), server.id()};
}

inline ElementPlace Local(const ElementServer& server) {
  return {server.local_name(), At(server.port()), server.id()};
}

// What comes until the end, asking again when the connection is lost.
inline std::vector<int64_t> Drain(ElementClient* client, size_t size) {
  std::vector<int64_t> indices;
  const auto give_up = Clock::now() + seconds(60);
  while (Clock::now() < give_up) {
    Element element;
    PayloadRef payload;
    const Status status = client->Next("\x08\x01", Question(), &element, &payload);
    if (status.code() == Code::kUnavailable) continue;
    if (!status.ok()) {
      EXPECT_EQ(status.message(), "");
      return indices;
    }
    if (element.end_of_sequence) return indices;
    EXPECT_EQ(payload == nullptr ? 0 : payload->bytes().size(), size);
    if (size > 0 && payload != nullptr) {
      const char wanted = static_cast<char>('a' + element.index % 26);
      EXPECT_EQ(payload->bytes()[0], wanted);
      EXPECT_EQ(std::memcmp(payload->bytes().data(), payload->bytes().data() + 1, size - 1), 0);
    }
    indices.push_back(element.index);
  }
  EXPECT_TRUE(false) << "no end";
  return indices;
}

inline std::vector<int64_t> UpTo(int64_t count) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < count; ++i) indices.push_back(i);
  return indices;
}

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TESTING_ELEMENT_WORKER_H_
