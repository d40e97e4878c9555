#include "ops/core/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ops/core/frame.h"

namespace tfquiver {
namespace {

constexpr std::string_view kMagic = "TQIT";
constexpr uint8_t kVersion = 2;
constexpr uint8_t kWithoutScript = 1;  // a version
constexpr uint8_t kEnded = 1;
constexpr uint8_t kShuffled = 2;
constexpr uint8_t kEpochKnown = 4;
constexpr uint64_t kMostShards = uint64_t{1} << 28;
constexpr uint64_t kMostEpochs = uint64_t{1} << 62;
constexpr uint64_t kMostCreditBytes = uint64_t{1} << 52;

template <typename T>
void Put(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

template <typename T>
bool Get(std::string_view* in, T* value) {
  if (in->size() < sizeof(T)) return false;
  std::memcpy(value, in->data(), sizeof(T));
  in->remove_prefix(sizeof(T));
  return true;
}

bool GetVarint(std::string_view* in, uint64_t* value) {
  *value = 0;
  for (int shift = 0; shift < 63 && !in->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    *value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool GetMarks(std::string_view* from, ZlibCodec codec, Marks* marks) {
  std::string_view& in = *from;
  uint32_t zlib_bytes;
  if (marks->shards > kMostShards || !Get(&in, &zlib_bytes) || in.size() < zlib_bytes) return false;
  std::string done;
  const size_t done_bytes = (marks->shards + 7) / 8;
  if (!codec.inflate(in.substr(0, zlib_bytes), done_bytes, &done)) return false;
  marks->done.assign(done.begin(), done.end());
  if (marks->shards % 8 != 0 && static_cast<uint8_t>(done.back()) >> marks->shards % 8 != 0) {
    return false;
  }
  in.remove_prefix(zlib_bytes);
  uint64_t count;
  if (!GetVarint(&in, &count)) return false;
  uint64_t shard = 0;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t step;
    uint64_t emitted;
    if (!GetVarint(&in, &step) || !GetVarint(&in, &emitted)) return false;
    if (step >= marks->shards - shard || emitted > 0xffffffffu) return false;
    shard += step;
    marks->partly[static_cast<uint32_t>(shard)] = static_cast<uint32_t>(emitted);
  }
  return true;
}

bool IsDone(const Marks& marks, uint64_t shard) {
  return (marks.done[shard / 8] >> (shard % 8) & 1) != 0;
}

// Every shard wanted once, with something to come from it, and every draw from one of them.
bool GetScript(std::string_view* in, const Marks& marks, Script* script) {
  uint64_t wanted;
  uint64_t draws;
  if (!GetVarint(in, &script->credit_bytes) || !GetVarint(in, &wanted)) return false;
  if (wanted > marks.shards || wanted > in->size()) return false;
  std::unordered_set<uint64_t> seen;
  for (uint64_t i = 0; i < wanted; ++i) {
    uint64_t shard;
    if (!GetVarint(in, &shard) || shard >= marks.shards || IsDone(marks, shard)) return false;
    if (!seen.insert(shard).second) return false;
    script->wanted.push_back(static_cast<uint32_t>(shard));
  }
  if (!GetVarint(in, &draws) || draws > in->size()) return false;
  for (uint64_t i = 0; i < draws; ++i) {
    uint64_t place;
    if (!GetVarint(in, &place) || place >= wanted) return false;
    script->draws.push_back(script->wanted[place]);
  }
  return script->credit_bytes <= kMostCreditBytes;
}

void PutScript(const Script& script, std::string* out) {
  std::unordered_map<uint32_t, uint32_t> places;
  PutVarint(script.credit_bytes, out);
  PutVarint(script.wanted.size(), out);
  for (uint32_t shard : script.wanted) {
    places.emplace(shard, static_cast<uint32_t>(places.size()));
    PutVarint(shard, out);
  }
  PutVarint(script.draws.size(), out);
  for (uint32_t shard : script.draws) PutVarint(places.at(shard), out);
}

}  // namespace

void Rewind(const std::vector<Step>& steps, Checkpoint* checkpoint) {
  if (steps.empty()) return;
  std::map<uint32_t, uint32_t> joined;  // by shard
  std::vector<uint32_t> draws;
  Script& script = checkpoint->script;
  draws.reserve(steps.size() + script.draws.size());
  Marks& marks = checkpoint->marks;
  for (const Step& step : steps) {
    draws.push_back(step.shard);
    if (!joined.emplace(step.shard, step.joined).second) continue;
    // Its first step: so many of its records had been emitted before.
    const auto bit = static_cast<uint8_t>(1u << step.shard % 8);
    marks.done[step.shard / 8] = static_cast<uint8_t>(marks.done[step.shard / 8] & ~bit);
    if (step.index > 0) {
      marks.partly[step.shard] = step.index;
    } else {
      marks.partly.erase(step.shard);
    }
  }
  for (size_t i = 0; i < script.wanted.size(); ++i) {
    const bool known = i < script.joined.size();
    joined.emplace(script.wanted[i], known ? script.joined[i] : static_cast<uint32_t>(i));
  }
  draws.insert(draws.end(), script.draws.begin(), script.draws.end());
  std::vector<uint32_t> wanted;
  for (const auto& [shard, when] : joined) wanted.push_back(shard);
  std::sort(wanted.begin(), wanted.end(),
            [&joined](uint32_t a, uint32_t b) { return joined.at(a) < joined.at(b); });
  script.wanted = std::move(wanted);
  script.joined.clear();
  script.draws = std::move(draws);
}

std::string WriteCheckpoint(const Checkpoint& checkpoint, Crc32cExtend crc, ZlibCodec codec) {
  const Marks& marks = checkpoint.marks;
  const std::string done_zlib = codec.deflate(std::string(marks.done.begin(), marks.done.end()));
  std::string out(kMagic);
  Put(kVersion, &out);
  Put<uint8_t>((checkpoint.ended ? kEnded : 0) | (checkpoint.shuffled ? kShuffled : 0) |
                   (checkpoint.epoch >= 0 ? kEpochKnown : 0),
               &out);
  out += checkpoint.digest_id;
  Put(checkpoint.order_seed, &out);
  Put<uint64_t>(checkpoint.epoch >= 0 ? static_cast<uint64_t>(checkpoint.epoch) : 0, &out);
  Put(marks.shards, &out);
  Put(static_cast<uint32_t>(done_zlib.size()), &out);
  out += done_zlib;
  PutVarint(marks.partly.size(), &out);
  uint32_t previous = 0;
  for (const auto& [shard, emitted] : marks.partly) {
    PutVarint(shard - previous, &out);
    PutVarint(emitted, &out);
    previous = shard;
  }
  PutScript(checkpoint.script, &out);
  Put(crc(0, out.data(), out.size()), &out);
  return out;
}

bool IsCheckpoint(std::string_view bytes) { return bytes.substr(0, kMagic.size()) == kMagic; }

Status ReadCheckpoint(std::string_view bytes, std::string_view digest_id, Crc32cExtend crc,
                      ZlibCodec codec, Checkpoint* checkpoint) {
  const Status malformed(Code::kInvalidArgument, "the iterator checkpoint is damaged");
  uint32_t stored_crc;
  if (bytes.size() < kMagic.size() + sizeof(stored_crc)) return malformed;
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return Status(Code::kInvalidArgument, "this is not the checkpoint of a tfquiver iterator");
  }
  std::string_view in = bytes.substr(0, bytes.size() - sizeof(stored_crc));
  std::memcpy(&stored_crc, bytes.data() + in.size(), sizeof(stored_crc));
  if (crc(0, in.data(), in.size()) != stored_crc) return malformed;
  in.remove_prefix(kMagic.size());
  uint8_t version;
  uint8_t flags;
  if (!Get(&in, &version) || !Get(&in, &flags)) return malformed;
  const bool has_script = version != kWithoutScript;
  if (has_script && version != kVersion) {
    return Status(Code::kInvalidArgument, "the iterator checkpoint has version " +
                                              std::to_string(version) + "; this tfquiver reads " +
                                              std::to_string(kWithoutScript) + " and " +
                                              std::to_string(kVersion));
  }
  if (flags > (kEnded | kShuffled | (has_script ? kEpochKnown : 0))) return malformed;
  if (in.size() < kIdBytes) return malformed;
  if (in.substr(0, kIdBytes) != digest_id) {
    return Status(Code::kInvalidArgument,
                  "the iterator checkpoint is of another data set (its digest differs): restore it "
                  "into a pipeline over the data it was taken from");
  }
  Checkpoint read;
  read.ended = (flags & kEnded) != 0;
  read.shuffled = (flags & kShuffled) != 0;
  read.digest_id = std::string(digest_id);
  in.remove_prefix(kIdBytes);
  uint64_t epoch = 0;
  if (!Get(&in, &read.order_seed) || (has_script && !Get(&in, &epoch))) return malformed;
  if (epoch > kMostEpochs || !Get(&in, &read.marks.shards)) return malformed;
  if ((flags & kEpochKnown) != 0) read.epoch = static_cast<int64_t>(epoch);
  if (!GetMarks(&in, codec, &read.marks)) return malformed;
  if (has_script && !GetScript(&in, read.marks, &read.script)) return malformed;
  if (!in.empty()) return malformed;
  *checkpoint = std::move(read);
  return Status();
}

}  // namespace tfquiver
