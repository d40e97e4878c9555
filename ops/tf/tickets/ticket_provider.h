#ifndef TFQUIVER_OPS_TF_TICKETS_TICKET_PROVIDER_H_
#define TFQUIVER_OPS_TF_TICKETS_TICKET_PROVIDER_H_

#include <cstdint>
#include <mutex>
#include <string>

#include "ops/core/node_messages_socket_tickets/frame.h"
#include "ops/tf/tickets/unsaved_splits.h"
#include "tensorflow/core/framework/dataset.h"

namespace tfquiver {

// Hands out tickets: splits that hold the id of the session which the workers of one tf.data
// service iteration share. Lives in the dispatcher, which makes one for every iteration, calls it
// under its one lock for all jobs, and never frees it: hence no thread, no open connection, and at
// most kLimit of waiting, and none while the node is known to hang. Thread-safe.
class TicketProvider : public UnsavedSplits {
 public:
  TicketProvider(std::string endpoint, std::string session_key, std::string digest_id,
                 std::string job, const SessionWish& wish, int64_t cardinality);

  // kUnavailable (workers try again) when the node does not answer in time.
  absl::Status GetNext(tensorflow::Tensor* split, bool* end_of_splits) override;
  absl::Status Reset() override;
  // Finite: distributed_save would otherwise count by drawing for ever.
  int64_t Cardinality() const override { return cardinality_; }
  // A restarted dispatcher must not replay tickets: the session's state is the coordinator's.
  bool IsDynamic() const override { return true; }

 private:
  const std::string endpoint_;
  const std::string session_key_;
  const std::string digest_id_;
  const std::string job_;
  const SessionWish wish_;
  const int64_t cardinality_;
  const std::string provider_id_;
  const bool restored_;
  std::mutex mu_;
  uint64_t repetition_ = 0;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_TICKETS_TICKET_PROVIDER_H_
