#include "ops/core/checkpoint.h"

#include <cstring>

#include "ops/core/frame.h"

namespace tfquiver {
namespace {

constexpr std::string_view kMagic = "TQIT";
constexpr uint8_t kVersion = 1;
constexpr uint8_t kEnded = 1;
constexpr uint8_t kShuffled = 2;
constexpr uint64_t kMostShards = uint64_t{1} << 28;

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

bool GetMarks(std::string_view in, ZlibCodec codec, Marks* marks) {
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
  return in.empty();
}

}  // namespace

std::string CheckpointWriter::Write(const Checkpoint& checkpoint) {
  const Marks& marks = checkpoint.marks;
  if (done_zlib_.empty() || done_ != marks.done) {
    done_ = marks.done;
    done_zlib_ = codec_.deflate(std::string(done_.begin(), done_.end()));
  }
  std::string out(kMagic);
  Put(kVersion, &out);
  Put<uint8_t>((checkpoint.ended ? kEnded : 0) | (checkpoint.shuffled ? kShuffled : 0), &out);
  out += checkpoint.digest_id;
  Put(checkpoint.order_seed, &out);
  Put(marks.shards, &out);
  Put(static_cast<uint32_t>(done_zlib_.size()), &out);
  out += done_zlib_;
  PutVarint(marks.partly.size(), &out);
  uint32_t previous = 0;
  for (const auto& [shard, emitted] : marks.partly) {
    PutVarint(shard - previous, &out);
    PutVarint(emitted, &out);
    previous = shard;
  }
  Put(crc_(0, out.data(), out.size()), &out);
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
  if (!Get(&in, &version) || !Get(&in, &flags) || flags > (kEnded | kShuffled)) return malformed;
  if (version != kVersion) {
    return Status(Code::kInvalidArgument, "the iterator checkpoint has version " +
                                              std::to_string(version) + "; this tfquiver reads " +
                                              std::to_string(kVersion));
  }
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
  if (!Get(&in, &read.order_seed) || !Get(&in, &read.marks.shards)) return malformed;
  if (!GetMarks(in, codec, &read.marks)) return malformed;
  *checkpoint = std::move(read);
  return Status();
}

}  // namespace tfquiver
