#ifndef TFQUIVER_OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_SESSION_PROTOCOL_H_
#define TFQUIVER_OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_SESSION_PROTOCOL_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/clock.h"
#include "ops/core/node_messages_socket_tickets/frame.h"
#include "ops/core/status.h"

namespace tfquiver {

struct SessionOptions {
  std::string session_id;  // of the ticket; empty: the node makes a session for this reader alone
  std::string session_key;
  std::string digest_id;
  std::string job;
  std::string reader_id;
  std::string label;
  bool in_turn = false;  // Role::kReaderInTurn
  SessionWish wish;
  uint64_t credit_bytes = 0;
  std::string done_zlib;                      // compressed done bitmap of a checkpoint; empty: none
  std::chrono::milliseconds connect{10'000};  // to the node's WELCOME, at first
  std::chrono::milliseconds reconnect{60'000};  // the same, after the node went away; to OPENED
  std::chrono::milliseconds silence{20'000};    // a node that hangs so long has gone away
};

// The reader's half of docs/protocol.md, from OPEN on: is told what the node said, what became of
// shards, and the time; says which frames to send. Has no socket, thread, clock or pool.
//
//   (HELD) -> OPEN -> OPENED -> { SHARD | ACK, CREDIT, BAD, DRAINING } -> END
//      ^---------------- Disconnected ----------------'
class SessionProtocol {
 public:
  // `options` outlive this.
  explicit SessionProtocol(const SessionOptions* options)
      : options_(options), session_id_(options->session_id) {}

  struct Opening {
    std::vector<std::string> frames;  // one after the other; the last one is OPEN
    bool has_state = false;           // OPEN takes SessionOptions::done_zlib along
  };
  // How to open the session on a new connection, for the first time or again. `held`: the shards
  // this reader answers for (ignored at first); `here_bytes`: of shards that are here already.
  Opening Open(std::vector<uint32_t> held, uint64_t here_bytes);
  // The node said so. `wanted`: which shards to send (Order::kWanted).
  void OnOpened(Opened opened, const std::vector<uint32_t>& wanted);
  // A shard came. kAborted when this session cannot have such a one: then it must not be loaded.
  // What had come of its picks is its own then.
  Status OnShard(ShardFrame* frame);
  // A part of the picks of the shard that comes next. kAborted when it is not the next part.
  Status OnPicks(PicksFrame part);
  // The session is over: nothing more is said but good-bye.
  void OnEnd();
  // The shard was loaded, or was not needed.
  void Loaded(uint32_t shard);
  // The shard could not be used: it is to be sent again.
  void Bad(uint32_t shard, uint64_t length_bytes);
  // The shard is another reader's. The length of one that was to be sent again, which is not
  // awaited any more: the credit for it is the node's.
  uint64_t Dropped(uint32_t shard);
  // What the pool has to say. `spent`: all that came has been emitted.
  void Tell(const std::vector<uint32_t>& acks, uint64_t credit_bytes, bool spent,
            Clock::time_point now);
  // Asks the node whether it takes reports, and whether it is there.
  void Ask() { outgoing_.push_back(EncodePing()); }
  void OnPong(const Pong& pong);
  // When the next report is due; none ever is where the node did not ask for them.
  Clock::time_point report_at() const { return report_at_; }
  void SayReport(const Report& report, Clock::time_point now);
  void SayLeaving() { outgoing_.push_back(EncodeLeaving()); }
  void SayClose(bool complete) { outgoing_.push_back(EncodeClose(complete)); }
  // The connection is gone, and what was under way on it.
  void Disconnected();

  // What is to be sent, first one first; whoever has sent it takes it away.
  std::deque<std::string>& outgoing() { return outgoing_; }
  bool opened() const { return opened_; }  // at least once
  bool ended() const { return ended_; }
  // On this connection.
  uint64_t shards_received() const { return shards_received_; }

 private:
  const SessionOptions* const options_;
  std::string session_id_;
  Opened session_;  // as the node told
  bool opened_ = false;
  bool ended_ = false;
  std::deque<std::string> outgoing_;
  PicksFrame picks_;                      // of the shard that comes next, as far as they came
  std::map<uint32_t, uint64_t> awaited_;  // came damaged, asked for again; their lengths
  uint64_t shards_received_ = 0;
  uint64_t drained_at_ = ~uint64_t{0};  // shards_received_ of the last DRAINING
  // What was here when the session was opened again, over and above the credit.
  uint64_t credit_debt_bytes_ = 0;
  std::deque<std::pair<Clock::time_point, uint32_t>> recent_acks_;
  std::chrono::milliseconds report_every_{0};
  Clock::time_point report_at_ = Clock::time_point::max();
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_SESSION_PROTOCOL_H_
