#include "ops/core/wire/frame.h"

#include <algorithm>
#include <cstring>

namespace tfquiver {
namespace {

constexpr uint16_t kMagic = 0x5154;
constexpr uint8_t kVersion = 1;
constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

enum Type : uint8_t {
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
  kHeld = 16,
  kDropped = 17,
  kDelivered = 18,
  kWant = 19,
  kLeaving = 20,
};

// Numbers travel little-endian; so are the machines this is built for (checked where the op is
// built).
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

class Writer {
 public:
  explicit Writer(Type type) {
    Number(kMagic);
    Number(kVersion);
    Number<uint8_t>(type);
    Number<uint32_t>(0);
  }

  template <typename T>
  void Number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Bool(bool value) { Number<uint8_t>(value ? 1 : 0); }
  void Raw(std::string_view bytes) { bytes_.append(bytes); }
  // Longer strings are cut: the op checks the ones that matter (keys, ids) when it is made.
  void Text(std::string_view text) {
    text = text.substr(0, kMaxStringBytes);
    Number(static_cast<uint16_t>(text.size()));
    Raw(text);
  }

  void Wish(const SessionWish& wish) {
    Number(wish.seed);
    Number(static_cast<uint8_t>(wish.order));
    Bool(wish.homogeneous);
    Number(wish.order_seed);
    Number(wish.block_bytes);
    Number(wish.batch_records);
  }

  std::string Take() {
    const auto length = static_cast<uint32_t>(bytes_.size() - kFrameHeaderBytes);
    std::memcpy(&bytes_[4], &length, sizeof(length));
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

class Reader {
 public:
  Reader(const char* frame, std::string_view payload) : frame_(frame), payload_(payload) {}

  template <typename T>
  T Number(const char* field, uint64_t most = ~uint64_t{0}) {
    T value{};
    std::string_view raw = Take(sizeof(T), field);
    if (raw.size() == sizeof(T)) std::memcpy(&value, raw.data(), sizeof(T));
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

  Status Finish() {
    if (status_.ok() && !payload_.empty())
      Complain(std::to_string(payload_.size()) + " bytes too many");
    return status_;
  }

 private:
  std::string_view Take(size_t size, const char* field) {
    if (!status_.ok()) return {};
    if (payload_.size() < size) {
      Complain(std::string("cut short at ") + field);
      return {};
    }
    std::string_view taken = payload_.substr(0, size);
    payload_.remove_prefix(size);
    return taken;
  }

  void Complain(const std::string& what) {
    if (status_.ok()) status_ = Status(Code::kAborted, std::string(frame_) + " frame: " + what);
  }

  const char* frame_;
  std::string_view payload_;
  Status status_;
};

std::vector<std::string> EncodeIndexes(Type type, const std::vector<uint32_t>& shards,
                                       const std::string* name = nullptr) {
  std::vector<std::string> frames;
  for (size_t at = 0; at < shards.size(); at += kMaxIndexes) {
    const size_t count = std::min(kMaxIndexes, shards.size() - at);
    Writer writer(type);
    if (name != nullptr) writer.Text(*name);
    writer.Number(static_cast<uint32_t>(count));
    writer.Raw({reinterpret_cast<const char*>(&shards[at]), count * sizeof(uint32_t)});
    frames.push_back(writer.Take());
  }
  return frames;
}

}  // namespace

std::string EncodeHello(Role role, uint32_t pid, std::string_view label) {
  Writer writer(kHello);
  writer.Number(static_cast<uint8_t>(role));
  writer.Number(pid);
  writer.Text(label);
  return writer.Take();
}

std::string EncodeOpen(const OpenFields& open) {
  Writer writer(kOpen);
  writer.Text(open.session_id);
  writer.Text(open.session_key);
  writer.Raw(open.digest_id);
  writer.Text(open.job);
  writer.Text(open.reader_id);
  writer.Number(open.credit_bytes);
  writer.Wish(open.wish);
  writer.Bool(open.has_state);
  return writer.Take();
}

std::string EncodeCredit(uint64_t bytes) {
  Writer writer(kCredit);
  writer.Number(bytes);
  return writer.Take();
}

std::string EncodeBad(uint32_t shard) {
  Writer writer(kBad);
  writer.Number(shard);
  return writer.Take();
}

std::string EncodeDraining(uint64_t shards_received) {
  Writer writer(kDraining);
  writer.Number(shards_received);
  return writer.Take();
}

std::string EncodeClose(bool complete) {
  Writer writer(kClose);
  writer.Bool(complete);
  return writer.Take();
}

std::string EncodeLeaving() { return Writer(kLeaving).Take(); }

std::string EncodeTicket(const TicketFields& ticket) {
  Writer writer(kTicket);
  writer.Text(ticket.session_key);
  writer.Text(ticket.provider_id);
  writer.Number(ticket.repetition);
  writer.Number(static_cast<uint8_t>(ticket.asker));
  writer.Raw(ticket.digest_id);
  writer.Text(ticket.job);
  writer.Wish(ticket.wish);
  return writer.Take();
}

std::string EncodeError(Code code, bool fatal, std::string_view message) {
  Writer writer(kError);
  writer.Number(static_cast<uint16_t>(code));
  writer.Bool(fatal);
  writer.Text(message);
  return writer.Take();
}

std::vector<std::string> EncodeAcks(const std::vector<uint32_t>& shards) {
  return EncodeIndexes(kAck, shards);
}

std::vector<std::string> EncodeHeld(const std::vector<uint32_t>& shards) {
  return EncodeIndexes(kHeld, shards);
}

std::vector<std::string> EncodeDelivered(const std::string& session_id,
                                         const std::vector<uint32_t>& shards) {
  return EncodeIndexes(kDelivered, shards, &session_id);
}

std::vector<std::string> EncodeWants(const std::vector<uint32_t>& shards) {
  std::vector<std::string> frames = EncodeIndexes(kWant, shards);
  Writer all(kWant);
  all.Number(uint32_t{0});
  frames.push_back(all.Take());
  return frames;
}

Status Decode(std::string_view message, NodeFrame* frame) {
  if (message.size() < kFrameHeaderBytes || message.size() > kMaxFrameBytes) {
    return Status(Code::kAborted,
                  "a message of " + std::to_string(message.size()) + " bytes is not a frame");
  }
  uint16_t magic;
  uint32_t length;
  std::memcpy(&magic, message.data(), sizeof(magic));
  std::memcpy(&length, message.data() + 4, sizeof(length));
  const auto version = static_cast<uint8_t>(message[2]);
  const auto type = static_cast<uint8_t>(message[3]);
  if (magic != kMagic) return Status(Code::kAborted, "a frame with the wrong magic");
  if (version != kVersion) {
    return Status(Code::kAborted, "a frame of protocol version " + std::to_string(version) +
                                      "; this op speaks " + std::to_string(kVersion));
  }
  std::string_view payload = message.substr(kFrameHeaderBytes);
  if (length != payload.size()) {
    return Status(Code::kAborted, "a frame of type " + std::to_string(type) + " says " +
                                      std::to_string(length) + " bytes, " +
                                      std::to_string(payload.size()) + " came");
  }
  switch (type) {
    case kWelcome: {
      Reader reader("WELCOME", payload);
      Welcome welcome{reader.Text("node_id")};
      *frame = std::move(welcome);
      return reader.Finish();
    }
    case kOpened: {
      Reader reader("OPENED", payload);
      Opened opened;
      opened.session_id = reader.Text("session_id");
      opened.epoch = reader.Number<uint64_t>("epoch");
      opened.shards = reader.Number<uint64_t>("shards");
      opened.records = reader.Number<uint64_t>("records");
      *frame = std::move(opened);
      return reader.Finish();
    }
    case kShard: {
      Reader reader("SHARD", payload);
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
      return Reader("END", payload).Finish();
    }
    case kTicketReply: {
      Reader reader("TICKET_REPLY", payload);
      TicketReply reply;
      reply.end = reader.Number<uint8_t>("end", 1) == 1;
      reply.session_id = reader.Text("session_id");
      *frame = std::move(reply);
      return reader.Finish();
    }
    case kError: {
      Reader reader("ERROR", payload);
      ErrorFrame error;
      error.code = CodeFromWire(reader.Number<uint16_t>("code"));
      error.fatal = reader.Number<uint8_t>("fatal", 1) == 1;
      error.message = reader.Text("message");
      *frame = std::move(error);
      return reader.Finish();
    }
    case kDropped: {
      Reader reader("DROPPED", payload);
      Dropped dropped{reader.Indexes("shards")};
      *frame = std::move(dropped);
      return reader.Finish();
    }
    default:
      return Status(Code::kAborted,
                    "a frame of type " + std::to_string(type) + ", which a node does not send");
  }
}

}  // namespace tfquiver
