#ifndef TFQUIVER_OPS_CORE_STATUS_H_
#define TFQUIVER_OPS_CORE_STATUS_H_

#include <string>
#include <utility>

namespace tfquiver {

// The canonical status numbers: the same as gRPC's, absl's and TensorFlow's.
enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// Outcome of an operation; the TensorFlow layer turns it into absl::Status (core sees no TensorFlow
// header).
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

// A status number from the wire; numbers nobody defined become kUnknown.
inline Code CodeFromWire(int number) {
  return number >= 1 && number <= 16 ? static_cast<Code>(number) : Code::kUnknown;
}

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_STATUS_H_
