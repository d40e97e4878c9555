#include "ops/core/shard_loading/shard_loader.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "ops/core/shuffle_pool_and_order/random.h"

namespace tfquiver {
namespace {

constexpr char kTooManySkipped[] = "the checkpoint has more of its records than it has";
constexpr uint64_t kPieceBytes = 256 << 10;  // stays in the second-level cache
constexpr uint64_t kMostBufferKeptBytes = 16
                                          << 20;  // a larger buffer is not kept for the next shard

// The length is a peer's word, and the file may be sparse.
std::string NoMemory(uint64_t length_bytes) {
  return "there is no memory for its " + std::to_string(length_bytes) + " bytes";
}

bool IsSealed(int fd) {
  const int needed = F_SEAL_SHRINK | F_SEAL_WRITE;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & needed) == needed;
}

// A read-only mapping of part of a file.
class Mapping {
 public:
  Mapping(int fd, uint64_t offset, uint64_t size) {
    const uint64_t page_bytes = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
    const uint64_t start = offset / page_bytes * page_bytes;
    size_ = size + (offset - start);
    void* base =
        ::mmap(nullptr, size_, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, static_cast<off_t>(start));
    if (base == MAP_FAILED) return;
    base_ = static_cast<char*>(base);
    data_ = base_ + (offset - start);
  }
  ~Mapping() {
    if (base_ != nullptr) ::munmap(base_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  const char* data() const { return data_; }

 private:
  char* base_ = nullptr;
  char* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace

std::unique_ptr<ShardRecords> ShardLoader::Load(const ShardFrame& frame, const UniqueFd& fd,
                                                uint32_t skip, std::string* why) {
  // Seals first: the size of what is not sealed yet may still change after it was looked at.
  const bool sealed = frame.kind == ShardKind::kMemory && fd.valid() && IsSealed(fd.get());
  struct stat info;
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0) {
    *why = "no descriptor came with it";
    return nullptr;
  }
  const auto file_bytes = static_cast<uint64_t>(info.st_size);
  if (frame.offset > file_bytes || frame.length_bytes > file_bytes - frame.offset) {
    *why = "it ends after the end of its file";
    return nullptr;
  }
  if (frame.records > frame.length_bytes / kRecordFramingBytes) {
    *why = "its records do not fill it";
    return nullptr;
  }
  if (skip > frame.records && frame.picks.empty()) {
    *why = kTooManySkipped;
    return nullptr;
  }
  uint32_t crc = 0;
  std::unique_ptr<ShardRecords> records;
  const bool large = frame.records > 0 && frame.length_bytes / frame.records >= kLargeRecordBytes;
  if (sealed && frame.length_bytes > 0) {
    Mapping mapping(fd.get(), frame.offset, frame.length_bytes);
    if (mapping.data() == nullptr) {
      *why = std::string("its memory cannot be mapped: ") + std::strerror(errno);
      return nullptr;
    }
    crc = crc_(0, mapping.data(), frame.length_bytes);
    if (crc != frame.crc32c) {
      *why = "its checksum is wrong";
      return nullptr;
    }
    return Pack(frame, mapping.data(), skip, why);
  }
  // Of records that are not all wanted, those that are not need no memory of their own.
  if (large && frame.picks.empty()) {
    records = LoadLarge(frame, fd.get(), why);
    if (records != nullptr) records->CountSkipped(skip);
    return records;
  }
  if (buffer_bytes_ < frame.length_bytes) {
    buffer_.reset(new (std::nothrow) char[frame.length_bytes]);
    buffer_bytes_ = buffer_ == nullptr ? 0 : frame.length_bytes;
    if (buffer_ == nullptr) {
      *why = NoMemory(frame.length_bytes);
      return nullptr;
    }
  }
  if (Read(fd.get(), frame.offset, buffer_.get(), frame.length_bytes, &crc, why)) {
    if (crc != frame.crc32c) {
      *why = "its checksum is wrong";
    } else {
      records = Pack(frame, buffer_.get(), skip, why);
    }
  }
  if (buffer_bytes_ > kMostBufferKeptBytes) {
    buffer_.reset();
    buffer_bytes_ = 0;
  }
  return records;
}

bool ShardLoader::Read(int fd, uint64_t offset, char* to, uint64_t size, uint32_t* crc,
                       std::string* why) {
  uint64_t done = 0;
  while (done < size) {
    if (stop_->load(std::memory_order_relaxed)) {
      *why = "stopped";
      return false;
    }
    const ssize_t got = ::pread(fd, to + done, std::min(kPieceBytes, size - done),
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      *why = got == 0 ? "its file is shorter than it was" : std::strerror(errno);
      return false;
    }
    *crc = crc_(*crc, to + done, static_cast<size_t>(got));
    done += static_cast<uint64_t>(got);
  }
  return true;
}

std::unique_ptr<ShardRecords> ShardLoader::LoadLarge(const ShardFrame& frame, int fd,
                                                     std::string* why) {
  auto records = std::make_unique<ShardRecords>(frame.shard, frame.length_bytes, blocks_, blobs_);
  uint64_t at = frame.offset;
  uint64_t left = frame.length_bytes;
  uint32_t crc = 0;
  // The footer of one record and the header of the next are read together.
  char framing[kRecordFramingBytes];
  size_t footer_bytes = 0;
  while (true) {
    const size_t header_bytes = left > footer_bytes ? kRecordHeaderBytes : 0;
    const size_t framing_bytes = footer_bytes + header_bytes;
    if (left < framing_bytes) {
      *why = "its records do not fill it";
      return nullptr;
    }
    if (!Read(fd, at, framing, framing_bytes, &crc, why)) return nullptr;
    at += framing_bytes;
    left -= framing_bytes;
    if (header_bytes == 0) break;
    uint64_t length;
    std::memcpy(&length, framing + footer_bytes, sizeof(length));
    // Not yet checked against the checksum: only its bounds make it safe to believe.
    if (left < kRecordFooterBytes || length > left - kRecordFooterBytes ||
        records->records() == frame.records) {
      *why = "its records do not fill it";
      return nullptr;
    }
    char* to = nullptr;
    try {
      to = records->AppendLarge(length);
    } catch (const std::bad_alloc&) {
      *why = NoMemory(length);
      return nullptr;
    }
    if (!Read(fd, at, to, length, &crc, why)) return nullptr;
    at += length;
    left -= length;
    footer_bytes = kRecordFooterBytes;
  }
  if (crc != frame.crc32c || records->records() != frame.records) {
    *why = crc != frame.crc32c ? "its checksum is wrong" : "its number of records is wrong";
    return nullptr;
  }
  if (shuffled_) records->Order(OrderOf(frame));
  if (tagged_) records->KeepTags(OrderOf(frame));
  return records;
}

std::unique_ptr<ShardRecords> ShardLoader::Pack(const ShardFrame& frame, const char* bytes,
                                                uint32_t skip, std::string* why) {
  if (!ParseRecords(bytes, frame.length_bytes, frame.records, &spans_)) {
    *why = "its records do not fill it";
    return nullptr;
  }
  const bool large = frame.records > 0 && frame.length_bytes / frame.records >= kLargeRecordBytes;
  const std::vector<uint32_t>& order = OrderOf(frame);
  if (skip > order.size()) {
    *why = kTooManySkipped;
    return nullptr;
  }
  uint64_t bytes_to_come = frame.length_bytes;
  if (!frame.picks.empty()) {
    bytes_to_come = 0;
    for (size_t i = large ? 0 : skip; i < order.size(); ++i) {
      bytes_to_come += spans_[order[i]].size + kRecordFramingBytes;
    }
  }
  auto records = std::make_unique<ShardRecords>(frame.shard, bytes_to_come, blocks_, blobs_);
  for (size_t i = large ? 0 : skip; i < order.size(); ++i) {
    const RecordSpan& span = spans_[order[i]];
    if (large) {
      std::memcpy(records->AppendLarge(span.size), bytes + span.offset, span.size);
    } else {
      records->AppendSmall(bytes + span.offset, span.size);
    }
  }
  if (tagged_) records->KeepTags(order);
  records->CountSkipped(skip);
  return records;
}

const std::vector<uint32_t>& ShardLoader::OrderOf(const ShardFrame& frame) {
  if (frame.picks.empty()) {
    indexes_.resize(frame.records);
    std::iota(indexes_.begin(), indexes_.end(), 0u);
  } else {
    const size_t plane_bytes = (size_t{frame.records} + 7) / 8;
    indexes_.clear();
    for (size_t plane = 0; plane < frame.picks.size(); plane += plane_bytes) {
      for (uint32_t i = 0; i < frame.records; ++i) {
        if ((frame.picks[plane + i / 8] >> i % 8 & 1) != 0) indexes_.push_back(i);
      }
    }
  }
  if (shuffled_) {
    Random random = ShardRandom(order_seed_, frame.shard);
    for (uint32_t i = static_cast<uint32_t>(indexes_.size()); i > 1; --i) {
      std::swap(indexes_[i - 1], indexes_[random.Below(i)]);
    }
  }
  return indexes_;
}

}  // namespace tfquiver
