#include "ops/core/example_parsing/example_parser.h"

#include <cstring>
#include <utility>

namespace tfquiver {
namespace {

// Tags of fields: number << 3 | wire type.
constexpr uint8_t kDelimited1 = 1 << 3 | 2;  // Example.features, Features.feature, key, value
constexpr uint8_t kDelimited2 = 2 << 3 | 2;  // value of an entry of a map
constexpr size_t kMostVarintBytes = 10;

// Reads the wire format forwards. What cannot be read leaves it failed, and at its end.
class Wire {
 public:
  explicit Wire(std::string_view bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}

  bool done() const { return at_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }
  const char* at() const { return at_; }

  bool Tag(uint8_t tag) {
    if (at_ == end_ || static_cast<uint8_t>(*at_) != tag) return false;
    ++at_;
    return true;
  }
  // The tag of a delimited field with a number below 16; 0: none.
  uint8_t AnyTag() { return at_ == end_ ? 0 : static_cast<uint8_t>(*at_++); }

  bool Varint(uint64_t* value) {
    if (at_ != end_ && static_cast<uint8_t>(*at_) < 0x80) {
      *value = static_cast<uint8_t>(*at_++);
      return true;
    }
    uint64_t read = 0;
    for (size_t i = 0; i < kMostVarintBytes && at_ != end_; ++i) {
      const auto byte = static_cast<uint8_t>(*at_++);
      read |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
      if (byte < 0x80) {
        *value = read;
        return i + 1 < kMostVarintBytes || byte <= 1;
      }
    }
    return false;
  }

  bool Delimited(std::string_view* bytes) {
    uint64_t size = 0;
    if (!Varint(&size) || size > left()) return false;
    *bytes = std::string_view(at_, static_cast<size_t>(size));
    at_ += size;
    return true;
  }

 private:
  const char* at_;
  const char* const end_;
};

uint64_t Load(const char* from, size_t size) {
  uint64_t word = 0;
  std::memcpy(&word, from, size);
  return word;
}

size_t Hash(std::string_view name) {
  const size_t size = name.size();
  uint64_t first = 0;
  uint64_t last = 0;
  if (size >= 8) {
    first = Load(name.data(), 8);
    last = Load(name.data() + size - 8, 8);
  } else if (size > 0) {
    first = Load(name.data(), size);
  }
  uint64_t mixed = (first ^ (last << 1 | last >> 63) ^ size) * 0x9e3779b97f4a7c15u;
  mixed ^= mixed >> 29;
  return static_cast<size_t>((mixed * 0xbf58476d1ce4e5b9u) >> 32);
}

bool Numbers(std::string_view list, size_t values, int64_t* to) {
  Wire wire(list);
  std::string_view packed;
  if (!wire.Tag(kDelimited1) || !wire.Delimited(&packed) || !wire.done()) return false;
  Wire numbers(packed);
  for (size_t i = 0; i < values; ++i) {
    uint64_t value = 0;
    if (!numbers.Varint(&value)) return false;
    to[i] = static_cast<int64_t>(value);
  }
  return numbers.done();
}

bool Numbers(std::string_view list, size_t values, float* to) {
  Wire wire(list);
  std::string_view packed;
  if (!wire.Tag(kDelimited1) || !wire.Delimited(&packed) || !wire.done()) return false;
  // They travel with the low byte first, as they lie in memory where TensorFlow runs.
  if (packed.size() != values * sizeof(float)) return false;
  std::memcpy(to, packed.data(), packed.size());
  return true;
}

bool Texts(std::string_view list, size_t values, std::string_view* to) {
  Wire wire(list);
  for (size_t i = 0; i < values; ++i) {
    if (!wire.Tag(kDelimited1) || !wire.Delimited(&to[i])) return false;
  }
  return wire.done();
}

bool Values(std::string_view value, const DenseFeature& feature, void* to) {
  Wire wire(value);
  std::string_view list;
  if (wire.AnyTag() != (static_cast<uint8_t>(feature.kind) << 3 | 2)) return false;
  if (!wire.Delimited(&list) || !wire.done()) return false;
  switch (feature.kind) {
    case FeatureKind::kBytes:
      return Texts(list, feature.values, static_cast<std::string_view*>(to));
    case FeatureKind::kFloat:
      return Numbers(list, feature.values, static_cast<float*>(to));
    case FeatureKind::kInt64:
      return Numbers(list, feature.values, static_cast<int64_t*>(to));
  }
  return false;
}

}  // namespace

ExampleParser::ExampleParser(std::vector<DenseFeature> features) : features_(std::move(features)) {
  size_t size = 4;
  while (size < 4 * features_.size()) size *= 2;
  slots_.assign(size, kNone);
  for (uint32_t index = 0; index < features_.size(); ++index) {
    size_t slot = Hash(features_[index].name) & (size - 1);
    while (slots_[slot] != kNone) slot = (slot + 1) & (size - 1);
    slots_[slot] = index;
    if (!features_[index].may_lack) ++needed_;
  }
}

uint32_t ExampleParser::Find(std::string_view name) const {
  for (size_t slot = Hash(name) & (slots_.size() - 1);; slot = (slot + 1) & (slots_.size() - 1)) {
    const uint32_t index = slots_[slot];
    if (index == kNone || features_[index].name == name) return index;
  }
}

bool ExampleParser::Parse(std::string_view record, const ExampleRow& row,
                          std::vector<uint8_t>* seen) const {
  Wire example(record);
  std::string_view map;
  if (!example.Tag(kDelimited1) || !example.Delimited(&map) || !example.done()) return false;
  seen->assign(features_.size(), 0);
  size_t found = 0;
  Wire entries(map);
  while (!entries.done()) {
    std::string_view entry;
    std::string_view name;
    std::string_view value;
    if (!entries.Tag(kDelimited1) || !entries.Delimited(&entry)) return false;
    Wire parts(entry);
    if (!parts.Tag(kDelimited1) || !parts.Delimited(&name)) return false;
    if (!parts.Tag(kDelimited2) || !parts.Delimited(&value) || !parts.done()) return false;
    const uint32_t index = Find(name);
    if (index == kNone) continue;
    // Of one that is there twice the last one counts: seldom, and not found out here.
    if ((*seen)[index]++ != 0) return false;
    if (!Values(value, features_[index], row.of[index])) return false;
    if (!features_[index].may_lack) ++found;
  }
  return found == needed_;
}

}  // namespace tfquiver
