#include "ops/core/shuffle_pool_and_order/order_log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "ops/core/bytes_checksums_tfrecords/bytes.h"

namespace tfquiver {
namespace {

constexpr Signature kSignature{"TQOL", 1};
constexpr uint8_t kRestored = 1;
constexpr uint8_t kHomogeneous = 2;
constexpr uint64_t kLeaves = uint64_t{1} << 63;
constexpr uint32_t kEnd = 0xffffffffu;  // in place of a shard
constexpr size_t kPrefixBytes = 8;
constexpr size_t kHeaderBytes = kPrefixBytes + kIdBytes + 6 * sizeof(uint64_t) + sizeof(uint32_t);
constexpr size_t kEntryBytes = 4 + 8 + 4;

std::string Bytes(const OrderHeader& header, Crc32cExtend crc) {
  std::string out;
  PutSignature(kSignature, &out);
  Put<uint8_t>((header.restored ? kRestored : 0) | (header.homogeneous ? kHomogeneous : 0), &out);
  Put<uint16_t>(0, &out);
  out += header.digest_id;
  for (uint64_t number : {header.epoch, header.draw_seed, header.order_seed, header.shuffle_bytes,
                          header.readahead_bytes, header.shards}) {
    Put(number, &out);
  }
  PutChecksum(crc, &out);
  return out;
}

// Each entry's checksum covers it and, through the checksum before, all that stands before it.
void PutEntry(uint32_t shard, uint64_t drawn, Crc32cExtend crc, uint32_t* chain, std::string* out) {
  const size_t start = out->size();
  Put(shard, out);
  Put(drawn, out);
  *chain = crc(*chain, out->data() + start, out->size() - start);
  Put(*chain, out);
}

Status ReadFile(const std::string& path, std::string* bytes) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    const Code code = errno == ENOENT ? Code::kNotFound : Code::kInvalidArgument;
    return Status(code, "order log " + path + ": " + std::strerror(errno));
  }
  bytes->resize(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (done < bytes->size()) {
    const ssize_t got = ::read(fd.get(), bytes->data() + done, bytes->size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status(Code::kDataLoss, "order log " + path + ": " + std::strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes->resize(done);
  return Status();
}

bool GetHeader(std::string_view* in, uint32_t crc, OrderHeader* header) {
  uint8_t flags;
  uint16_t zero;
  std::string_view digest_id;
  if (!Get(in, &flags) || !Get(in, &zero) || !GetRaw(in, kIdBytes, &digest_id)) return false;
  header->restored = (flags & kRestored) != 0;
  header->homogeneous = (flags & kHomogeneous) != 0;
  header->digest_id = std::string(digest_id);
  for (uint64_t* number : {&header->epoch, &header->draw_seed, &header->order_seed,
                           &header->shuffle_bytes, &header->readahead_bytes, &header->shards}) {
    if (!Get(in, number)) return false;
  }
  uint32_t stored_crc;
  return Get(in, &stored_crc) && stored_crc == crc;
}

// False when it is damaged, or does not follow on what *chain is of.
bool GetEntry(std::string_view* in, Crc32cExtend crc, uint32_t* chain, OrderEntry* entry) {
  *chain = crc(*chain, in->data(), kEntryBytes - sizeof(*chain));
  uint64_t drawn;
  uint32_t stored_chain;
  if (!Get(in, &entry->shard) || !Get(in, &drawn) || !Get(in, &stored_chain)) return false;
  entry->drawn = drawn & ~kLeaves;
  entry->leaves = (drawn & kLeaves) != 0;
  return stored_chain == *chain;
}

Status Parse(std::string_view in, const std::string& path, Crc32cExtend crc, OrderLog* log) {
  const std::string what = "order log " + path;
  const std::string_view whole = in;
  uint8_t version;
  if (in.size() < kHeaderBytes || !GetSignature(kSignature, &in, &version)) {
    return Status(Code::kInvalidArgument, what +
                                              ": this is not an order log, or not all of its "
                                              "header");
  }
  if (version != kSignature.version) {
    return Status(Code::kInvalidArgument, what + " has version " + std::to_string(version) +
                                              "; this tfquiver reads " +
                                              std::to_string(kSignature.version));
  }
  uint32_t chain = crc(0, whole.data(), kHeaderBytes - sizeof(uint32_t));
  if (!GetHeader(&in, chain, &log->header)) {
    return Status(Code::kDataLoss, what + ": its header is damaged");
  }
  uint64_t drawn_before = 0;
  while (in.size() >= kEntryBytes && !log->whole) {
    const size_t at = whole.size() - in.size();
    OrderEntry entry;
    const bool sound = GetEntry(&in, crc, &chain, &entry);
    const bool is_end = entry.shard == kEnd;
    if (!sound || (!is_end && entry.shard >= log->header.shards) || entry.drawn < drawn_before) {
      return Status(Code::kDataLoss, what + ": it is damaged at byte " + std::to_string(at));
    }
    drawn_before = entry.drawn;
    log->whole = is_end;
    if (!is_end) log->entries.push_back(entry);
  }
  if (log->whole && !in.empty()) {
    return Status(Code::kDataLoss, what + ": it goes on after its end, at byte " +
                                       std::to_string(whole.size() - in.size()));
  }
  return Status();
}

}  // namespace

std::string OrderLogPath(const std::string& folder, uint64_t epoch) {
  char name[40];
  std::snprintf(name, sizeof(name), "/epoch-%05" PRIu64 ".tqo", epoch);
  return folder + name;
}

Status ReadOrderLog(const std::string& path, uint64_t epoch, Crc32cExtend crc, OrderLog* log,
                    std::string* read_path) {
  struct stat info;
  const bool is_folder = ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  *read_path = is_folder ? OrderLogPath(path, epoch) : path;
  std::string bytes;
  Status status = ReadFile(*read_path, &bytes);
  if (!status.ok()) return status;
  OrderLog read;
  status = Parse(bytes, *read_path, crc, &read);
  if (status.ok()) *log = std::move(read);
  return status;
}

Status CheckReplayable(const OrderLog& log, const std::string& path, const std::string& digest_id,
                       uint64_t shards, uint64_t shuffle_bytes, uint64_t readahead_bytes) {
  const OrderHeader& header = log.header;
  const std::string what = "order log " + path;
  if (header.digest_id != digest_id || header.shards != shards) {
    return Status(Code::kInvalidArgument, what + " is of another data set (its digest differs)");
  }
  if (header.restored) {
    return Status(Code::kInvalidArgument,
                  what +
                      " begins in mid-epoch, where an iterator was restored from a checkpoint: "
                      "it cannot be replayed");
  }
  if (header.shuffle_bytes != shuffle_bytes || header.readahead_bytes != readahead_bytes) {
    return Status(Code::kInvalidArgument,
                  what + " was written with shuffle_bytes=" + std::to_string(header.shuffle_bytes) +
                      ", readahead_bytes=" + std::to_string(header.readahead_bytes) +
                      ": replay it with the same, not " + std::to_string(shuffle_bytes) + " and " +
                      std::to_string(readahead_bytes));
  }
  return Status();
}

Status OrderLogWriter::Create(const std::string& folder, const OrderHeader& header,
                              Crc32cExtend crc, std::unique_ptr<OrderLogWriter>* writer) {
  ::mkdir(folder.c_str(), 0777);  // open says what is wrong with it
  const std::string path = OrderLogPath(folder, header.epoch);
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd.valid()) {
    if (errno == EEXIST) {
      return Status(Code::kAlreadyExists, "order log " + path +
                                              " exists: give log_dir= a folder of its own for "
                                              "each run, or remove the old logs");
    }
    return Status(Code::kInvalidArgument, "order log " + path + ": " + std::strerror(errno));
  }
  const std::string bytes = Bytes(header, crc);
  const uint32_t chain = crc(0, bytes.data(), bytes.size() - sizeof(uint32_t));
  std::unique_ptr<OrderLogWriter> made(new OrderLogWriter(path, std::move(fd), crc, chain));
  if (!made->Write(bytes)) {
    return Status(Code::kResourceExhausted, "order log " + path + ": " + std::strerror(errno));
  }
  *writer = std::move(made);
  return Status();
}

bool OrderLogWriter::Append(const std::vector<OrderEntry>& entries) {
  std::string bytes;
  for (const OrderEntry& entry : entries) {
    PutEntry(entry.shard, entry.drawn | (entry.leaves ? kLeaves : 0), crc_, &chain_, &bytes);
  }
  return Write(bytes);
}

bool OrderLogWriter::End(uint64_t drawn) {
  std::string bytes;
  PutEntry(kEnd, drawn, crc_, &chain_, &bytes);
  const bool written = Write(bytes);
  fd_ = UniqueFd();
  return written;
}

bool OrderLogWriter::Write(const std::string& bytes) {
  size_t done = 0;
  while (fd_.valid() && done < bytes.size()) {
    const ssize_t wrote = ::write(fd_.get(), bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) fd_ = UniqueFd();
    if (wrote > 0) done += static_cast<size_t>(wrote);
  }
  return done == bytes.size();
}

}  // namespace tfquiver
