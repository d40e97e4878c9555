#ifndef TFQUIVER_OPS_TESTING_TEST_SUPPORT_H_
#define TFQUIVER_OPS_TESTING_TEST_SUPPORT_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/core/bytes_checksums_tfrecords/tfrecord.h"
#include "ops/core/node_messages_socket_tickets/place.h"
#include "ops/core/node_messages_socket_tickets/unix_socket.h"
#include "ops/core/record_memory/shard_records.h"
#include "ops/testing/testing.h"

namespace tfquiver {

// One bit at a time: slow, and plainly right.
inline uint32_t SlowCrc32c(uint32_t crc, const char* data, size_t size) {
  crc = ~crc;
  for (size_t i = 0; i < size; ++i) {
    crc ^= static_cast<uint8_t>(data[i]);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
  }
  return ~crc;
}

// Of a shard in a block of a deterministic order.
constexpr Place PlaceInBlock(uint64_t position, uint32_t offset, uint32_t records,
                             uint32_t shards) {
  Place place;
  place.position = position;
  place.offset = offset;
  place.block_records = records;
  place.block_shards = shards;
  return place;
}

// Blobs that are std::strings; counts those alive, so that a leak shows. Owners are counted by
// hand.
class StringBlobs : public BlobFactory {
 public:
  struct Owner {
    std::unique_ptr<HeldMemory> memory;
    std::atomic<int> holders{1};
  };

  explicit StringBlobs(bool shares = true) : shares_(shares) {}
  ~StringBlobs() override { EXPECT_EQ(alive_, 0); }
  void* New(size_t size, char** data) override {
    ++alive_;
    auto* blob = new std::string(size, '\0');
    *data = blob->data();
    return blob;
  }
  void Delete(void* blob) override {
    --alive_;
    delete static_cast<std::string*>(blob);
  }
  bool shares() const override { return shares_; }
  void* Share(std::unique_ptr<HeldMemory> memory) override {
    ++alive_;
    auto* owner = new Owner;
    owner->memory = std::move(memory);
    return owner;
  }
  void Unshare(void* owner) override {
    auto* shared = static_cast<Owner*>(owner);
    if (--shared->holders > 0) return;
    --alive_;
    delete shared;
  }
  // As a string that is made of a record does.
  static void Hold(void* owner) { ++static_cast<Owner*>(owner)->holders; }

  std::string Text(const Record& record) {
    if (record.blob == nullptr) return std::string(record.data, record.size);
    std::string text = *static_cast<std::string*>(record.blob);
    Delete(record.blob);
    return text;
  }

 private:
  const bool shares_;
  std::atomic<int> alive_{0};
};

inline std::string Framed(const std::vector<std::string>& records) {
  std::string bytes;
  for (const std::string& record : records) {
    const uint64_t size = record.size();
    bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
    bytes += "abcd" + record + "efgh";  // the CRCs of records are not read
  }
  return bytes;
}

inline UniqueFd Memory(std::string_view bytes, bool sealed) {
  UniqueFd fd(::memfd_create("test", MFD_ALLOW_SEALING));
  EXPECT_EQ(::write(fd.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  if (sealed) ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW);
  return fd;
}

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TESTING_TEST_SUPPORT_H_
