#ifndef TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_FRAME_HEADER_H_
#define TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_FRAME_HEADER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "ops/core/bytes_checksums_tfrecords/bytes.h"
#include "ops/core/node_messages_socket_tickets/frame.h"

namespace tfquiver {

// What every frame begins with: u16 magic, u8 version, u8 type, u32 bytes that follow.
struct FrameHeader {
  uint16_t magic = 0x5154;
  uint8_t version = 1;
  uint8_t type = 0;
  uint32_t payload_bytes = 0;
};
static_assert(sizeof(FrameHeader) == kFrameHeaderBytes);

enum FrameType : uint8_t {
  kHello = 1,
  kWelcome = 2,
  kOpen = 3,
  kOpened = 4,
  kCredit = 5,
  kShard = 6,
  kAck = 7,
  kBad = 8,
  kDraining = 9,
  kEnd = 10,
  kClose = 11,
  kTicket = 12,
  kTicketReply = 13,
  kError = 14,
  kPing = 15,
  kHeld = 16,
  kDropped = 17,
  kDelivered = 18,
  kWant = 19,
  kLeaving = 20,
  kPong = 21,
  kReport = 22,
  kPicks = 28,  // those between are of mounts
};

inline void PutFrameHeader(const FrameHeader& header, std::string* out) {
  Put(header.magic, out);
  Put(header.version, out);
  Put(header.type, out);
  Put(header.payload_bytes, out);
}

inline bool GetFrameHeader(std::string_view* in, FrameHeader* header) {
  return Get(in, &header->magic) && Get(in, &header->version) && Get(in, &header->type) &&
         Get(in, &header->payload_bytes);
}

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_FRAME_HEADER_H_
