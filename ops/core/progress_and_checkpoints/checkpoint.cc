#include "ops/core/progress_and_checkpoints/checkpoint.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ops/core/bytes_checksums_tfrecords/bytes.h"

namespace tfquiver {
namespace {

constexpr Signature kSignature{"TQIT", 2};
constexpr uint8_t kWithoutScript = 1;  // a version
constexpr uint8_t kEnded = 1;
constexpr uint8_t kShuffled = 2;
constexpr uint8_t kEpochKnown = 4;
constexpr uint64_t kMostShards = uint64_t{1} << 28;
constexpr uint64_t kMostEpochs = uint64_t{1} << 62;
constexpr uint64_t kMostCreditBytes = uint64_t{1} << 52;

bool GetMarks(std::string_view* from, ZlibCodec codec, Marks* marks) {
  std::string_view& in = *from;
  std::string_view zlib;
  if (marks->shards > kMostShards || !GetSized<uint32_t>(&in, &zlib)) return false;
  std::string done;
  if (!codec.inflate(zlib, (marks->shards + 7) / 8, &done)) return false;
  marks->done.assign(done.begin(), done.end());
  if (marks->shards % 8 != 0 && static_cast<uint8_t>(done.back()) >> marks->shards % 8 != 0) {
    return false;
  }
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

std::string WriteCheckpoint(const Checkpoint& checkpoint, Crc32cExtend crc, ZlibCodec codec) {
  const Marks& marks = checkpoint.marks;
  std::string out;
  PutSignature(kSignature, &out);
  Put<uint8_t>((checkpoint.ended ? kEnded : 0) | (checkpoint.shuffled ? kShuffled : 0) |
                   (checkpoint.epoch >= 0 ? kEpochKnown : 0),
               &out);
  out += checkpoint.digest_id;
  Put(checkpoint.order_seed, &out);
  Put<uint64_t>(checkpoint.epoch >= 0 ? static_cast<uint64_t>(checkpoint.epoch) : 0, &out);
  Put(marks.shards, &out);
  PutSized<uint32_t>(codec.deflate(std::string(marks.done.begin(), marks.done.end())), &out);
  PutVarint(marks.partly.size(), &out);
  uint32_t previous = 0;
  for (const auto& [shard, emitted] : marks.partly) {
    PutVarint(shard - previous, &out);
    PutVarint(emitted, &out);
    previous = shard;
  }
  PutScript(checkpoint.script, &out);
  PutChecksum(crc, &out);
  return out;
}

bool IsCheckpoint(std::string_view bytes) {
  return bytes.substr(0, kSignature.magic.size()) == kSignature.magic;
}

Status ReadCheckpoint(std::string_view bytes, std::string_view digest_id, Crc32cExtend crc,
                      ZlibCodec codec, Checkpoint* checkpoint) {
  const Status malformed(Code::kInvalidArgument, "the iterator checkpoint is damaged");
  if (bytes.size() < kSignature.magic.size() + sizeof(uint32_t)) return malformed;
  if (!IsCheckpoint(bytes)) {
    return Status(Code::kInvalidArgument, "this is not the checkpoint of a tfquiver iterator");
  }
  std::string_view in = bytes;
  uint8_t version;
  uint8_t flags;
  if (!CutChecksum(crc, &in) || !GetSignature(kSignature, &in, &version) || !Get(&in, &flags)) {
    return malformed;
  }
  const bool has_script = version != kWithoutScript;
  if (has_script && version != kSignature.version) {
    return Status(Code::kInvalidArgument, "the iterator checkpoint has version " +
                                              std::to_string(version) + "; this tfquiver reads " +
                                              std::to_string(kWithoutScript) + " and " +
                                              std::to_string(kSignature.version));
  }
  if (flags > (kEnded | kShuffled | (has_script ? kEpochKnown : 0))) return malformed;
  std::string_view of_digest;
  if (!GetRaw(&in, kIdBytes, &of_digest)) return malformed;
  if (of_digest != digest_id) {
    return Status(Code::kInvalidArgument,
                  "the iterator checkpoint is of another data set (its digest differs): restore it "
                  "into a pipeline over the data it was taken from");
  }
  Checkpoint read;
  read.ended = (flags & kEnded) != 0;
  read.shuffled = (flags & kShuffled) != 0;
  read.digest_id = std::string(digest_id);
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
