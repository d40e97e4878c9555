#include <algorithm>
#include <utility>

#include "ops/core/node_messages_socket_tickets/frame.h"
#include "ops/core/node_messages_socket_tickets/frame_header.h"

namespace tfquiver {
namespace {

// One frame: its header, then what is put into it.
class FieldWriter {
 public:
  explicit FieldWriter(FrameType type) { header_.type = type; }

  template <typename T>
  void Number(T value) {
    Put(value, &payload_);
  }
  void Bool(bool value) { Number<uint8_t>(value ? 1 : 0); }
  void Raw(std::string_view bytes) { payload_.append(bytes); }
  // Longer strings are cut: the op checks the ones that matter (keys, ids) when it is made.
  void Text(std::string_view text) {
    PutSized<uint16_t>(text.substr(0, kMaxStringBytes), &payload_);
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
    header_.payload_bytes = static_cast<uint32_t>(payload_.size());
    std::string frame;
    frame.reserve(kFrameHeaderBytes + payload_.size());
    PutFrameHeader(header_, &frame);
    return frame += payload_;
  }

 private:
  FrameHeader header_;
  std::string payload_;
};

std::vector<std::string> EncodeIndexes(FrameType type, const std::vector<uint32_t>& shards,
                                       const std::string* name = nullptr) {
  std::vector<std::string> frames;
  for (size_t at = 0; at < shards.size(); at += kMaxIndexes) {
    const size_t count = std::min(kMaxIndexes, shards.size() - at);
    FieldWriter writer(type);
    if (name != nullptr) writer.Text(*name);
    writer.Number(static_cast<uint32_t>(count));
    writer.Raw({reinterpret_cast<const char*>(&shards[at]), count * sizeof(uint32_t)});
    frames.push_back(writer.Take());
  }
  return frames;
}

}  // namespace

std::string EncodeHello(Role role, uint32_t pid, std::string_view label) {
  FieldWriter writer(kHello);
  writer.Number(static_cast<uint8_t>(role));
  writer.Number(pid);
  writer.Text(label);
  return writer.Take();
}

std::string EncodeOpen(const OpenFields& open) {
  FieldWriter writer(kOpen);
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
  FieldWriter writer(kCredit);
  writer.Number(bytes);
  return writer.Take();
}

std::string EncodeBad(uint32_t shard) {
  FieldWriter writer(kBad);
  writer.Number(shard);
  return writer.Take();
}

std::string EncodeDraining(uint64_t shards_received) {
  FieldWriter writer(kDraining);
  writer.Number(shards_received);
  return writer.Take();
}

std::string EncodeClose(bool complete) {
  FieldWriter writer(kClose);
  writer.Bool(complete);
  return writer.Take();
}

std::string EncodeLeaving() { return FieldWriter(kLeaving).Take(); }

std::string EncodePing() { return FieldWriter(kPing).Take(); }

std::string EncodeReport(const Report& report) {
  FieldWriter writer(kReport);
  writer.Number(report.records);
  writer.Number(report.bytes);
  writer.Number(report.waited_us);
  writer.Number(report.elapsed_us);
  return writer.Take();
}

std::string EncodeTicket(const TicketFields& ticket) {
  FieldWriter writer(kTicket);
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
  FieldWriter writer(kError);
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
  FieldWriter all(kWant);
  all.Number(uint32_t{0});
  frames.push_back(all.Take());
  return frames;
}

}  // namespace tfquiver
