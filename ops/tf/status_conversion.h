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

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_STATUS_CONVERSION_H_
