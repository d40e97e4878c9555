#ifndef TFQUIVER_OPS_CORE_SESSION_SESSION_CLIENT_H_
#define TFQUIVER_OPS_CORE_SESSION_SESSION_CLIENT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/pool/record_pool.h"
#include "ops/core/shards/shard_check.h"
#include "ops/core/shards/shard_loader.h"
#include "ops/core/status.h"
#include "ops/core/wire/frame.h"
#include "ops/core/wire/node_connection.h"
#include "ops/core/wire/unix_socket.h"

namespace tfquiver {

struct SessionOptions {
  std::string session_id;  // of the ticket; empty: the node makes a session for this reader alone
  std::string session_key;
  std::string digest_id;
  std::string job;
  std::string reader_id;
  std::string label;
  SessionWish wish;
  uint64_t credit_bytes = 0;
  std::string done_zlib;                      // compressed done bitmap of a checkpoint; empty: none
  std::chrono::milliseconds connect{10'000};  // to the node's WELCOME, at first
  std::chrono::milliseconds reconnect{60'000};  // the same, after the node went away; to OPENED
};

// Owns the socket to the node, on one thread (Run): opens the session, loads the shards that come
// into the pool, sends what the pool has to say, and connects again when the node goes away.
// Everything it waits for ends with Stop.
//
//   connect -> HELLO -> WELCOME -> (HELD) -> OPEN -> OPENED -> { SHARD | ACK, CREDIT, BAD, DRAINING
//   } -> END
//      ^------------------------------ the node is gone ------------------------------'
class SessionClient {
 public:
  using OnOpened = std::function<Status(uint64_t epoch, std::vector<uint32_t>* wanted)>;

  // `socket_path` is asked again at every connect; "" when unknown. `warn` logs; `on_opened` is
  // called before any shard is loaded, and says which shards are wanted (Order::kWanted); an error
  // is final. `on_turn` is called now and then, on the client's thread. All outlive the client.
  SessionClient(SessionOptions options, std::function<std::string()> socket_path, RecordPool* pool,
                ShardLoader* loader, std::atomic<bool>* stop, const WakeFd* wake,
                std::function<void(const std::string&)> warn, OnOpened on_opened,
                std::function<void()> on_turn);

  // Until the session has ended and Stop was called, or it failed (RecordPool::Fail), or Stop.
  void Run();
  // From any thread; does not wait. Run then says good-bye to the node and returns.
  void Stop();

 private:
  enum class Turn { kOn, kLost, kDone };

  Status Open(Clock::time_point deadline);
  Status SayOpen(Clock::time_point deadline);
  Turn Serve();
  Turn ReceiveAll();
  Turn Handle(NodeFrame frame, UniqueFd fd);
  Turn LoadOne();
  void CollectOutbox();
  bool Flush();
  Turn Fatal(Status status);
  void GoodBye();

  const SessionOptions options_;
  const std::function<std::string()> socket_path_;
  RecordPool* const pool_;
  ShardLoader* const loader_;
  std::atomic<bool>* const stop_;
  const WakeFd* const wake_;
  const std::function<void(const std::string&)> warn_;
  const OnOpened on_opened_;
  const std::function<void()> on_turn_;

  NodeConnection node_;
  std::string session_id_;
  Opened session_;  // as the node told
  std::string buffer_;
  bool opened_ = false;  // at least once
  bool ended_ = false;
  std::deque<std::string> outgoing_;
  std::deque<std::pair<ShardFrame, UniqueFd>> arrived_;  // not loaded yet
  std::map<uint32_t, int> times_bad_;                    // by shard
  std::set<uint32_t> awaited_;                           // came damaged, asked for again
  uint64_t frames_received_ = 0;                         // SHARD frames on this connection
  uint64_t drained_at_ = ~uint64_t{0};                   // frames_received_ of the last DRAINING
  uint64_t credit_debt_bytes_ =
      0;  // what was here when the session was opened again, over and above the credit
  std::deque<std::pair<Clock::time_point, uint32_t>> recent_acks_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SESSION_SESSION_CLIENT_H_
