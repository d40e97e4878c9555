#ifndef TFQUIVER_OPS_CORE_DELIVERED_RECORDS_DELIVERY_REPORTER_H_
#define TFQUIVER_OPS_CORE_DELIVERED_RECORDS_DELIVERY_REPORTER_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "ops/core/node_messages_socket_tickets/unix_socket.h"

namespace tfquiver {

// Tells the node on this machine which shards of which session have been delivered, so that nobody
// reads them again. Nothing depends on its success: what is not told is read, and dropped, once
// more. It therefore never fails and never waits for an answer; while the node is away it tries
// again now and then, and a node that comes back is told the last half minute anew.
class DeliveryReporter {
 public:
  // `socket_path` is asked at every connect; "" when unknown.
  DeliveryReporter(std::function<std::string()> socket_path, std::string label);

  // From any thread; does not wait.
  void Report(const std::string& session_id, std::vector<uint32_t> shards);
  void Wake() { wake_.Signal(); }

  // One thread at a time: sends what was reported, waiting for more until `until` or Wake.
  void Turn(Clock::time_point until);
  // The same without waiting for more, and closes.
  void Finish();

 private:
  struct Delivered {
    std::string session_id;
    std::vector<uint32_t> shards;
    Clock::time_point at;
  };

  bool Connect(Clock::time_point now);
  void Lose(Clock::time_point now);
  void Receive(Clock::time_point now);
  void Send(Clock::time_point now);

  const std::function<std::string()> socket_path_;
  const std::string label_;
  const WakeFd wake_;
  UnixSocket socket_;
  Clock::time_point next_connect_{};
  Clock::time_point next_send_{};
  std::chrono::milliseconds pause_;
  std::deque<std::string> outgoing_;
  std::deque<Delivered> told_;  // on this connection, in the last half minute
  std::string buffer_;

  std::mutex mu_;
  std::deque<Delivered> pending_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_DELIVERED_RECORDS_DELIVERY_REPORTER_H_
