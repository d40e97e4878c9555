#include <cstring>

#include "ops/core/node_messages_socket_tickets/frame.h"
#include "ops/core/node_messages_socket_tickets/frame_header.h"

namespace tfquiver {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

// The fields of a frame; keeps the first thing that is wrong with them.
class FieldReader {
 public:
  FieldReader(const char* frame, std::string_view payload) : frame_(frame), payload_(payload) {}

  template <typename T>
  T Number(const char* field, uint64_t most = ~uint64_t{0}) {
    T value{};
    std::string_view raw = Take(sizeof(T), field);
    if (!Get(&raw, &value)) return T{};
    if (static_cast<uint64_t>(value) > most) {
      Complain(std::string(field) + " is " + std::to_string(value) + ", more than " +
               std::to_string(most));
    }
    return value;
  }

  std::string Text(const char* field) {
    return std::string(Take(Number<uint16_t>(field, kMaxStringBytes), field));
  }

  std::vector<uint32_t> Indexes(const char* field) {
    const auto count = Number<uint32_t>(field, kMaxIndexes);
    std::vector<uint32_t> indexes;
    if (!status_.ok()) return indexes;
    std::string_view raw = Take(size_t{count} * sizeof(uint32_t), field);
    indexes.resize(raw.size() / sizeof(uint32_t));
    if (!raw.empty()) std::memcpy(indexes.data(), raw.data(), raw.size());
    return indexes;
  }

  std::string Bytes(const char* field) {
    return std::string(Take(Number<uint32_t>(field, kMaxFrameBytes), field));
  }

  Status Finish() {
    if (status_.ok() && !payload_.empty())
      Complain(std::to_string(payload_.size()) + " bytes too many");
    return status_;
  }

 private:
  std::string_view Take(size_t size, const char* field) {
    if (!status_.ok()) return {};
    std::string_view taken;
    if (!GetRaw(&payload_, size, &taken)) Complain(std::string("cut short at ") + field);
    return taken;
  }

  void Complain(const std::string& what) {
    if (status_.ok()) status_ = Status(Code::kAborted, std::string(frame_) + " frame: " + what);
  }

  const char* frame_;
  std::string_view payload_;
  Status status_;
};

}  // namespace

Status Decode(std::string_view message, NodeFrame* frame) {
  if (message.size() < kFrameHeaderBytes || message.size() > kMaxFrameBytes) {
    return Status(Code::kAborted,
                  "a message of " + std::to_string(message.size()) + " bytes is not a frame");
  }
  std::string_view payload = message;
  FrameHeader header;
  GetFrameHeader(&payload, &header);
  const FrameHeader ours;
  if (header.magic != ours.magic) return Status(Code::kAborted, "a frame with the wrong magic");
  if (header.version != ours.version) {
    return Status(Code::kAborted,
                  "the node speaks protocol version " + std::to_string(header.version) +
                      ", this op " + std::to_string(ours.version) +
                      ": bring both to one version of tfquiver, and start them again");
  }
  if (header.payload_bytes != payload.size()) {
    return Status(Code::kAborted, "a frame of type " + std::to_string(header.type) + " says " +
                                      std::to_string(header.payload_bytes) + " bytes, " +
                                      std::to_string(payload.size()) + " came");
  }
  switch (header.type) {
    case kWelcome: {
      FieldReader reader("WELCOME", payload);
      Welcome welcome{reader.Text("node_id")};
      *frame = std::move(welcome);
      return reader.Finish();
    }
    case kOpened: {
      FieldReader reader("OPENED", payload);
      Opened opened;
      opened.session_id = reader.Text("session_id");
      opened.epoch = reader.Number<uint64_t>("epoch");
      opened.shards = reader.Number<uint64_t>("shards");
      opened.records = reader.Number<uint64_t>("records");
      *frame = std::move(opened);
      return reader.Finish();
    }
    case kShard: {
      FieldReader reader("SHARD", payload);
      ShardFrame shard;
      shard.shard = reader.Number<uint32_t>("shard");
      shard.kind = static_cast<ShardKind>(reader.Number<uint8_t>("kind", 1));
      shard.offset = reader.Number<uint64_t>("offset", kMaxBytes);
      shard.length_bytes = reader.Number<uint64_t>("length", kMaxBytes);
      shard.crc32c = reader.Number<uint32_t>("crc32c");
      shard.records = reader.Number<uint32_t>("records");
      shard.place.unit = reader.Number<uint32_t>("unit");
      shard.place.position = reader.Number<uint64_t>("position", kMaxBytes);
      shard.place.offset = reader.Number<uint32_t>("offset in the block");
      shard.place.block_records = reader.Number<uint32_t>("records of the block");
      shard.place.block_shards = reader.Number<uint32_t>("shards of the block");
      *frame = shard;
      return reader.Finish();
    }
    case kEnd: {
      *frame = End{};
      return FieldReader("END", payload).Finish();
    }
    case kTicketReply: {
      FieldReader reader("TICKET_REPLY", payload);
      TicketReply reply;
      reply.end = reader.Number<uint8_t>("end", 1) == 1;
      reply.session_id = reader.Text("session_id");
      *frame = std::move(reply);
      return reader.Finish();
    }
    case kError: {
      FieldReader reader("ERROR", payload);
      ErrorFrame error;
      error.code = CodeFromWire(reader.Number<uint16_t>("code"));
      error.fatal = reader.Number<uint8_t>("fatal", 1) == 1;
      error.message = reader.Text("message");
      *frame = std::move(error);
      return reader.Finish();
    }
    case kDropped: {
      FieldReader reader("DROPPED", payload);
      Dropped dropped{reader.Indexes("shards")};
      *frame = std::move(dropped);
      return reader.Finish();
    }
    case kPong: {
      FieldReader reader("PONG", payload);
      *frame = Pong{reader.Number<uint32_t>("report_ms")};
      return reader.Finish();
    }
    case kPicks: {
      FieldReader reader("PICKS", payload);
      PicksFrame picks;
      picks.shard = reader.Number<uint32_t>("shard");
      picks.all_bytes = reader.Number<uint64_t>("bytes of all parts", kMostPickBytes);
      picks.at = reader.Number<uint64_t>("bytes before", kMostPickBytes);
      picks.bytes = reader.Bytes("picks");
      *frame = std::move(picks);
      return reader.Finish();
    }
    default:
      return Status(Code::kAborted, "a frame of type " + std::to_string(header.type) +
                                        ", which a node does not send");
  }
}

}  // namespace tfquiver
