#include "ops/core/element_messages_handshake_sockets/messages.h"

#include "ops/core/bytes_checksums_tfrecords/bytes.h"

namespace tfquiver {
namespace {

constexpr uint8_t kAsk = 1;
constexpr uint8_t kElement = 2;
constexpr char kLeave = 3;
constexpr size_t kMostDims = 254;  // of TensorFlow's shapes
constexpr size_t kMostText = 4096;

// Numbers of TensorFlow's GetElementRequest (core/data/service/worker.proto).
constexpr uint64_t kConsumerIndex = 2;
constexpr uint64_t kRoundIndex = 3;
constexpr uint64_t kAllowSkip = 5;
constexpr uint64_t kTrainerId = 6;

bool SkipField(uint64_t wire_type, std::string_view* in, uint64_t* value) {
  std::string_view bytes;
  switch (wire_type) {
    case 0:
      for (int shift = 0; !in->empty() && shift < 70; shift += 7) {
        const auto byte = static_cast<uint8_t>(in->front());
        in->remove_prefix(1);
        if (shift < 63) *value |= uint64_t{byte & 0x7fu} << shift;
        if (byte < 0x80) return true;
      }
      return false;
    case 1:
      return GetRaw(in, 8, &bytes);
    case 2: {
      uint64_t size;
      if (!GetVarint(in, &size) || !GetRaw(in, size, &bytes)) return false;
      *value = size;
      return true;
    }
    case 5:
      return GetRaw(in, 4, &bytes);
    default:
      return false;
  }
}

}  // namespace

bool ReadQuestion(std::string_view request, Question* question) {
  *question = Question();
  while (!request.empty()) {
    uint64_t tag;
    uint64_t value = 0;
    if (!GetVarint(&request, &tag) || !SkipField(tag & 7, &request, &value)) return false;
    const uint64_t field = tag >> 3;
    if (field == kAllowSkip) question->allow_skip = value != 0;
    if (field == kConsumerIndex || field == kRoundIndex) question->in_turn = true;
    if (field == kTrainerId && value > 0) question->in_turn = true;
  }
  return true;
}

std::string EncodeAsk(const Ask& ask) {
  std::string bytes;
  Put(kAsk, &bytes);
  Put(ask.number, &bytes);
  Put(ask.received, &bytes);
  Put(static_cast<uint32_t>(ask.released.size()), &bytes);
  for (const uint32_t memory : ask.released) Put(memory, &bytes);
  bytes.append(ask.request);
  return bytes;
}

bool DecodeAsk(std::string_view bytes, Ask* ask) {
  uint8_t type;
  uint32_t count;
  if (!Get(&bytes, &type) || type != kAsk || !Get(&bytes, &ask->number) ||
      !Get(&bytes, &ask->received) || !Get(&bytes, &count) ||
      count > bytes.size() / sizeof(uint32_t) || ask->number == 0 || ask->received >= ask->number) {
    return false;
  }
  ask->released.resize(count);
  for (uint32_t& memory : ask->released) Get(&bytes, &memory);
  ask->request = bytes;
  return true;
}

std::string EncodeLeave() { return std::string(1, kLeave); }

bool IsLeave(std::string_view bytes) { return bytes.size() == 1 && bytes[0] == kLeave; }

std::string EncodeElement(const Element& element) {
  std::string bytes;
  Put(kElement, &bytes);
  Put(element.number, &bytes);
  Put(static_cast<uint8_t>(element.code), &bytes);
  Put(static_cast<uint8_t>(element.end_of_sequence ? 1 : 0), &bytes);
  Put(static_cast<uint8_t>(element.skip ? 1 : 0), &bytes);
  Put(element.index, &bytes);
  Put(static_cast<uint8_t>(element.place), &bytes);
  Put(element.payload_bytes, &bytes);
  Put(element.payload_crc, &bytes);
  Put(element.memory, &bytes);
  Put(element.memory_bytes, &bytes);
  PutSized<uint16_t>(std::string_view(element.message).substr(0, kMostText), &bytes);
  Put(static_cast<uint32_t>(element.components.size()), &bytes);
  for (const Component& component : element.components) {
    Put(static_cast<uint8_t>(component.kind), &bytes);
    Put(component.dtype, &bytes);
    Put(component.offset, &bytes);
    Put(component.size, &bytes);
    Put(static_cast<uint8_t>(component.dims.size()), &bytes);
    for (const int64_t size : component.dims) Put(size, &bytes);
  }
  return bytes;
}

namespace {

bool DecodeComponent(uint64_t payload_bytes, std::string_view* bytes, Component* component) {
  uint8_t kind, rank;
  if (!Get(bytes, &kind) || kind > Component::kProto || !Get(bytes, &component->dtype) ||
      !Get(bytes, &component->offset) || !Get(bytes, &component->size) || !Get(bytes, &rank) ||
      rank > kMostDims || rank * sizeof(int64_t) > bytes->size()) {
    return false;
  }
  component->kind = static_cast<Component::Kind>(kind);
  component->dims.resize(rank);
  for (int64_t& size : component->dims) {
    if (!Get(bytes, &size) || size < 0) return false;
  }
  return component->offset % kPayloadAlignment == 0 && component->offset <= payload_bytes &&
         component->size <= payload_bytes - component->offset;
}

}  // namespace

bool DecodeElement(std::string_view bytes, Element* element) {
  uint8_t type, code, end, skip, place;
  std::string_view message;
  uint32_t count;
  if (!Get(&bytes, &type) || type != kElement || !Get(&bytes, &element->number) ||
      !Get(&bytes, &code) || !Get(&bytes, &end) || end > 1 || !Get(&bytes, &skip) || skip > 1 ||
      !Get(&bytes, &element->index) || !Get(&bytes, &place) || place > Element::kShared ||
      !Get(&bytes, &element->payload_bytes) || element->payload_bytes > kMostPayloadBytes ||
      !Get(&bytes, &element->payload_crc) || !Get(&bytes, &element->memory) ||
      !Get(&bytes, &element->memory_bytes) || element->memory_bytes > kMostPayloadBytes ||
      !GetSized<uint16_t>(&bytes, &message) || !Get(&bytes, &count)) {
    return false;
  }
  constexpr size_t kLeastComponent = 1 + 4 + 8 + 8 + 1;
  if (count > bytes.size() / kLeastComponent) return false;
  element->code = code == 0 ? Code::kOk : CodeFromWire(code);
  element->message = message;
  element->end_of_sequence = end == 1;
  element->skip = skip == 1;
  element->place = static_cast<Element::Place>(place);
  if (element->place == Element::kNothing && element->payload_bytes != 0) return false;
  element->components.resize(count);
  for (Component& component : element->components) {
    if (!DecodeComponent(element->payload_bytes, &bytes, &component)) return false;
  }
  return bytes.empty();
}

std::string Framed(std::string_view message, Crc32cExtend crc) {
  std::string frame;
  frame.reserve(message.size() + 8);
  PutSized<uint32_t>(message, &frame);
  Put(crc(0, message.data(), message.size()), &frame);
  return frame;
}

}  // namespace tfquiver
