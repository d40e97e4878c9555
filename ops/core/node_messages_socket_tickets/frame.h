#ifndef TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_FRAME_H_
#define TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ops/core/bytes_checksums_tfrecords/bytes.h"
#include "ops/core/node_messages_socket_tickets/place.h"
#include "ops/core/reader_throughput_and_waits/report.h"
#include "ops/core/status.h"

namespace tfquiver {

// Frames of the reader socket (docs/protocol.md). One frame is one message. Encoders make what the
// op sends; Decode reads what a node sends and refuses everything that is not exactly one
// well-formed frame.
inline constexpr size_t kMaxFrameBytes = 65536;
inline constexpr size_t kFrameHeaderBytes = 8;
inline constexpr size_t kMaxStringBytes = 8192;
inline constexpr size_t kMaxIndexes = 16000;         // of ACK, HELD, WANT and DROPPED
inline constexpr uint64_t kMostPickBytes = 2 << 20;  // of a shard, in several PICKS frames

// kReaderInTurn: a reader of several whose records are taken by turns, as a DataLoader does. (3 is
// a mount, in Python.)
enum class Role : uint8_t { kReader = 0, kTickets = 1, kDeliveries = 2, kReaderInTurn = 4 };
enum class ShardKind : uint8_t { kFile = 0, kMemory = 1 };

// In which order shards are handed out.
enum class Order : uint8_t {
  kAny = 0,            // as the cache has them
  kDeterministic = 1,  // in blocks, as the order seed says
  kWanted = 2,         // as WANT frames say
  kFiles = 3,          // as they are stored, each a block by itself
};

// What a session is to be like, but for its data set.
struct SessionWish {
  uint64_t seed = 0;
  Order order = Order::kAny;
  bool homogeneous = false;
  // Deterministic sessions; 0: made of the seed and the epoch.
  uint64_t order_seed = 0;
  // Of a block, or of a stripe unit of a homogeneous session, about.
  uint64_t block_bytes = 0;
  uint32_t batch_records = 0;  // 0: not known
};

struct OpenFields {
  std::string session_id;
  std::string session_key;
  std::string digest_id;  // kIdBytes raw bytes
  std::string job;
  std::string reader_id;
  uint64_t credit_bytes = 0;
  SessionWish wish;
  bool has_state = false;
};

// kLateReader: no provider, but a reader that the dispatcher told of the end before it had begun.
// kJoiner: a reader of a stream; it has part in the epoch that is under way, or begins the next.
enum class Asker : uint8_t { kProvider = 0, kRestoredProvider = 1, kLateReader = 2, kJoiner = 3 };

struct TicketFields {
  std::string session_key;
  std::string provider_id;
  uint64_t repetition = 0;
  Asker asker = Asker::kProvider;
  std::string digest_id;
  std::string job;
  SessionWish wish;
};

std::string EncodeHello(Role role, uint32_t pid, std::string_view label);
std::string EncodeOpen(const OpenFields& open);
std::string EncodeCredit(uint64_t bytes);
std::string EncodeBad(uint32_t shard);
std::string EncodeDraining(uint64_t shards_received);
std::string EncodeClose(bool complete);
std::string EncodeLeaving();
std::string EncodePing();
std::string EncodeReport(const Report& report);
std::string EncodeTicket(const TicketFields& ticket);
std::string EncodeError(Code code, bool fatal, std::string_view message);
// As many frames as `shards` need.
std::vector<std::string> EncodeAcks(const std::vector<uint32_t>& shards);
std::vector<std::string> EncodeHeld(const std::vector<uint32_t>& shards);
// Session ids longer than kMaxSessionIdBytes do not fit beside the shards.
inline constexpr size_t kMaxSessionIdBytes = 1024;
std::vector<std::string> EncodeDelivered(const std::string& session_id,
                                         const std::vector<uint32_t>& shards);
// And one that is empty, which says that these are all.
std::vector<std::string> EncodeWants(const std::vector<uint32_t>& shards);

struct Welcome {
  std::string node_id;
};
struct Opened {
  std::string session_id;
  uint64_t epoch = 0;
  uint64_t shards = 0;
  uint64_t records = 0;
};
struct ShardFrame {
  uint32_t shard = 0;
  ShardKind kind = ShardKind::kFile;
  uint64_t offset = 0;
  uint64_t length_bytes = 0;
  uint32_t crc32c = 0;
  uint32_t records = 0;
  Place place;
  // Of PICKS frames, which came before: planes of one bit a record, in stored order, least
  // significant bit first; a record is emitted once for each plane that has its bit. Empty: each
  // once.
  std::string picks;
};
// A part of the picks of the shard that comes next.
struct PicksFrame {
  uint32_t shard = 0;
  uint64_t all_bytes = 0;
  uint64_t at = 0;  // bytes that came before
  std::string bytes;
};
struct End {};
struct TicketReply {
  bool end = false;
  std::string session_id;
};
struct ErrorFrame {
  Code code = Code::kUnknown;
  bool fatal = false;
  std::string message;
};
struct Dropped {
  std::vector<uint32_t> shards;
};

// The answer to PING, of nodes that take REPORT: so often. 0: never.
struct Pong {
  uint32_t report_ms = 0;
};

using NodeFrame = std::variant<std::monostate, Welcome, Opened, ShardFrame, End, TicketReply,
                               ErrorFrame, Dropped, Pong, PicksFrame>;

// kAborted, naming frame and field, when `message` is anything but one frame that a node may send.
Status Decode(std::string_view message, NodeFrame* frame);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_FRAME_H_
