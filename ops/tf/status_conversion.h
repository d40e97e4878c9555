#ifndef TFQUIVER_OPS_TF_STATUS_CONVERSION_H_
#define TFQUIVER_OPS_TF_STATUS_CONVERSION_H_

#include "absl/status/status.h"
#include "ops/core/status.h"

namespace tfquiver {

inline absl::Status ToAbsl(const Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(static_cast<int>(status.code())),
                      "tfquiver: " + status.message());
}

// An error that tf.data service's client would repeat for ever (it takes these codes for a worker
// that is about to come back) must not look like one when it is final.
inline absl::Status Final(absl::Status status, bool in_service) {
  const bool repeated = absl::IsUnavailable(status) || absl::IsAborted(status);
  if (!in_service || !repeated) return status;
  return absl::FailedPreconditionError(status.message());
}

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_STATUS_CONVERSION_H_
