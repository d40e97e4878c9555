#include "ops/core/order/order_log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "ops/core/wire/frame.h"

namespace tfquiver {
namespace {

constexpr std::string_view kMagic = "TQOL";
constexpr uint8_t kVersion = 1;
constexpr uint8_t kRestored = 1;
constexpr uint8_t kHomogeneous = 2;
constexpr uint64_t kLeaves = uint64_t{1} << 63;
constexpr uint32_t kEnd = 0xffffffffu;  // in place of a shard
constexpr size_t kPrefixBytes = 8;
constexpr size_t kHeaderBytes = kPrefixBytes + kIdBytes + 6 * sizeof(uint64_t) + sizeof(uint32_t);
constexpr size_t kEntryBytes = 4 + 8 + 4;

template <typename T>
void Put(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <typename T>
T Get(std::string_view* in) {
  T value;
  std::memcpy(&value, in->data(), sizeof(T));
  in->remove_prefix(sizeof(T));
  return value;
}

std::string Bytes(const OrderHeader& header, Crc32cExtend crc) {
  std::string out(kMagic);
  Put(kVersion, &out);
  Put<uint8_t>((header.restored ? kRestored : 0) | (header.homogeneous ? kHomogeneous : 0), &out);
  Put<uint16_t>(0, &out);
  out += header.digest_id;
  for (uint64_t number : {header.epoch, header.draw_seed, header.order_seed, header.shuffle_bytes,
                          header.readahead_bytes, header.shards}) {
    Put(number, &out);
  }
  Put(crc(0, out.data(), out.size()), &out);
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

Status Parse(std::string_view in, const std::string& path, Crc32cExtend crc, OrderLog* log) {
  const std::string what = "order log " + path;
  if (in.size() < kHeaderBytes || in.substr(0, kMagic.size()) != kMagic) {
    return Status(Code::kInvalidArgument, what +
                                              ": this is not an order log, or not all of its "
                                              "header");
  }
  const auto version = static_cast<uint8_t>(in[kMagic.size()]);
  if (version != kVersion) {
    return Status(Code::kInvalidArgument, what + " has version " + std::to_string(version) +
                                              "; this tfquiver reads " + std::to_string(kVersion));
  }
  uint32_t chain = crc(0, in.data(), kHeaderBytes - sizeof(uint32_t));
  const auto flags = static_cast<uint8_t>(in[kMagic.size() + 1]);
  const size_t size = in.size();
  in.remove_prefix(kPrefixBytes);
  OrderHeader& header = log->header;
  header.restored = (flags & kRestored) != 0;
  header.homogeneous = (flags & kHomogeneous) != 0;
  header.digest_id = std::string(in.substr(0, kIdBytes));
  in.remove_prefix(kIdBytes);
  for (uint64_t* number : {&header.epoch, &header.draw_seed, &header.order_seed,
                           &header.shuffle_bytes, &header.readahead_bytes, &header.shards}) {
    *number = Get<uint64_t>(&in);
  }
  if (Get<uint32_t>(&in) != chain) return Status(Code::kDataLoss, what + ": its header is damaged");
  uint64_t drawn_before = 0;
  while (in.size() >= kEntryBytes && !log->whole) {
    const size_t at = size - in.size();
    chain = crc(chain, in.data(), kEntryBytes - sizeof(uint32_t));
    OrderEntry entry;
    entry.shard = Get<uint32_t>(&in);
    const auto drawn = Get<uint64_t>(&in);
    entry.drawn = drawn & ~kLeaves;
    entry.leaves = (drawn & kLeaves) != 0;
    const bool is_end = entry.shard == kEnd;
    if (Get<uint32_t>(&in) != chain || (!is_end && entry.shard >= header.shards) ||
        entry.drawn < drawn_before) {
      return Status(Code::kDataLoss, what + ": it is damaged at byte " + std::to_string(at));
    }
    drawn_before = entry.drawn;
    log->whole = is_end;
    if (!is_end) log->entries.push_back(entry);
  }
  if (log->whole && !in.empty()) {
    return Status(Code::kDataLoss,
                  what + ": it goes on after its end, at byte " + std::to_string(size - in.size()));
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
