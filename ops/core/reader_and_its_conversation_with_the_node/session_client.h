#ifndef TFQUIVER_OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_SESSION_CLIENT_H_
#define TFQUIVER_OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_SESSION_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/core/node_messages_socket_tickets/frame.h"
#include "ops/core/node_messages_socket_tickets/node_connection.h"
#include "ops/core/node_messages_socket_tickets/unix_socket.h"
#include "ops/core/reader_and_its_conversation_with_the_node/node_silence.h"
#include "ops/core/reader_and_its_conversation_with_the_node/session_protocol.h"
#include "ops/core/shard_loading/shard_intake.h"
#include "ops/core/shuffle_pool_and_order/record_pool.h"
#include "ops/core/status.h"

namespace tfquiver {

// How a reader finds its node.
struct NodeWay {
  // Asked again at every connect; "" when unknown.
  std::function<std::string()> socket_path;
  // Whether `socket`, which was connected to `path` just now, leads to the node that is meant, and
  // not to one in its place that knows nothing yet of this process. Empty: it always does.
  std::function<bool(const std::string& path, int socket)> is_told;
};

// The one thread of a reader (Run): carries what SessionProtocol has to say to the node, and what
// the node sends to the ShardIntake, and connects again when the node goes away. Everything it
// waits for ends with Stop.
class SessionClient {
 public:
  using OnOpened = std::function<Status(uint64_t epoch, std::vector<uint32_t>* wanted)>;

  // `warn` logs; `on_opened` is called before any shard is loaded, and says which shards are wanted
  // (Order::kWanted); an error is final. `on_turn` is called now and then, on the client's thread.
  // All outlive the client.
  SessionClient(SessionOptions options, NodeWay way, RecordPool* pool, ShardIntake* intake,
                std::atomic<bool>* stop, const WakeFd* wake,
                std::function<void(const std::string&)> warn, OnOpened on_opened,
                std::function<void()> on_turn);

  // Until the session has ended and Stop was called, or it failed (RecordPool::Fail), or Stop.
  void Run();
  // From any thread; does not wait. Run then says good-bye to the node and returns.
  void Stop();

 private:
  enum class Turn { kOn, kLost, kDone };

  void RunOn();
  Status Open(Clock::time_point deadline);
  Status SayOpen(Clock::time_point deadline);
  Status HearOpened(Clock::time_point deadline, Opened* opened);
  Turn Serve();
  Turn ReceiveAll();
  Turn Handle(NodeFrame frame, UniqueFd fd);
  Turn LoadOne();
  void Drop(const Dropped& dropped);
  bool LookWhetherSilent();
  void Heard(bool answer);
  void Collect();
  void ReportNow(Clock::time_point now);
  bool Flush();
  Turn Fatal(Status status);
  void GoodBye();

  const SessionOptions options_;
  const NodeWay way_;
  RecordPool* const pool_;
  ShardIntake* const intake_;
  std::atomic<bool>* const stop_;
  const WakeFd* const wake_;
  const std::function<void(const std::string&)> warn_;
  const OnOpened on_opened_;
  const std::function<void()> on_turn_;

  NodeConnection node_;
  SessionProtocol protocol_;
  NodeSilence silence_;
  std::string buffer_;
  Clock::duration away_for_{0};  // the last connection's node was, before it was given up
  std::string trouble_;          // why this end gave the last connection up; empty: it did not
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_SESSION_CLIENT_H_
