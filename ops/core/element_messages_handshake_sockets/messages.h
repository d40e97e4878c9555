#ifndef TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_MESSAGES_H_
#define TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_MESSAGES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ops/core/bytes_checksums_tfrecords/crc32c.h"
#include "ops/core/status.h"

namespace tfquiver {

// A message is its length (u32), that many bytes, and their CRC-32C (u32). Behind an ELEMENT stands
// its payload, unless that is in shared memory or there is none.
inline constexpr size_t kMessageHeadBytes = 4;
inline constexpr size_t kMostAskBytes = 64 << 10;
inline constexpr size_t kMostElementBytes = 16 << 20;
inline constexpr uint64_t kMostPayloadBytes = uint64_t{1} << 40;
inline constexpr size_t kPayloadAlignment = 64;

// What a request asks of TensorFlow, as far as that matters here: the fields of its
// GetElementRequest message.
struct Question {
  bool allow_skip = false;
  bool in_turn = false;  // coordinated reads, or a trainer of a shared cache: nothing asked ahead
};
// False for what is no such message.
bool ReadQuestion(std::string_view request, Question* question);

// Asks for element `number` of this client, the first is 1. All up to `received` have arrived.
struct Ask {
  uint64_t number = 0;
  uint64_t received = 0;
  std::vector<uint32_t> released;  // shared memory that the trainer does not look at any more
  std::string_view request;        // TensorFlow's GetElementRequest, for TensorFlow to read
};
std::string EncodeAsk(const Ask& ask);
bool DecodeAsk(std::string_view bytes, Ask* ask);

// Says that this client asks for nothing any more: what is kept for it is nobody's.
std::string EncodeLeave();
bool IsLeave(std::string_view bytes);

// One tensor.
struct Component {
  enum Kind : uint8_t {
    kRaw = 0,         // its buffer
    kStrings = 1,     // a length (u64) for each string, then all of them
    kCompressed = 2,  // TensorFlow's CompressedElement message, in a variant
    kProto = 3,       // TensorFlow's TensorProto message
  };
  Kind kind = kRaw;
  int32_t dtype = 0;
  std::vector<int64_t> dims;
  uint64_t offset = 0;  // in the payload; of a multiple of kPayloadAlignment
  uint64_t size = 0;
};

struct Element {
  enum Place : uint8_t { kNothing = 0, kBehind = 1, kShared = 2 };
  uint64_t number = 0;
  Code code = Code::kOk;
  std::string message;
  bool end_of_sequence = false;
  bool skip = false;
  int64_t index = 0;
  Place place = kNothing;
  uint64_t payload_bytes = 0;
  uint32_t payload_crc = 0;   // where it is kBehind
  uint32_t memory = 0;        // where it is kShared: which
  uint64_t memory_bytes = 0;  // and how large that is, where its descriptor rides along; else 0
  std::vector<Component> components;
};
std::string EncodeElement(const Element& element);
// False unless every component lies within the payload.
bool DecodeElement(std::string_view bytes, Element* element);

// With length and checksum around it.
std::string Framed(std::string_view message, Crc32cExtend crc);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_MESSAGES_H_
