#include "ops/core/element_client_and_server/received_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>

#include "ops/core/element_messages_handshake_sockets/messages.h"

namespace tfquiver {
namespace {

constexpr size_t kMostFreeBytes = 64 << 20;
constexpr size_t kRoundedTo = 64 << 10;

std::atomic<uint64_t> held{0};

class Shared : public Payload {
 public:
  Shared(std::shared_ptr<const Mapping> mapping, size_t size, uint32_t id,
         std::shared_ptr<Returned> returned)
      : Payload(mapping->bytes().substr(0, size)),
        mapping_(std::move(mapping)),
        id_(id),
        returned_(std::move(returned)) {
    held += bytes().size();
  }
  ~Shared() override {
    held -= bytes().size();
    returned_->Add(id_);
  }

 private:
  const std::shared_ptr<const Mapping> mapping_;
  const uint32_t id_;
  const std::shared_ptr<Returned> returned_;
};

}  // namespace

class OwnPayload : public Payload {
 public:
  OwnPayload(std::shared_ptr<BufferPool> pool, BufferPool::Buffer buffer, size_t size)
      : Payload(std::string_view(buffer.data, size)), pool_(std::move(pool)), buffer_(buffer) {
    held += size;
  }
  ~OwnPayload() override {
    held -= bytes().size();
    pool_->Give(buffer_);
  }

 private:
  const std::shared_ptr<BufferPool> pool_;
  const BufferPool::Buffer buffer_;
};

std::shared_ptr<const Mapping> Mapping::Map(const UniqueFd& fd, uint64_t size) {
  // Seals first: what cannot shrink any more cannot do so after it was looked at.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  struct stat is;
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd.get(), &is) != 0 || size == 0 ||
      static_cast<uint64_t>(is.st_size) != size) {
    return nullptr;
  }
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return nullptr;
  return std::shared_ptr<const Mapping>(
      new Mapping(std::string_view(static_cast<const char*>(data), size)));
}

Mapping::~Mapping() { ::munmap(const_cast<char*>(bytes_.data()), bytes_.size()); }

void Returned::Add(uint32_t id) {
  std::lock_guard<std::mutex> lock(mu_);
  ids_.push_back(id);
}

std::vector<uint32_t> Returned::Take() {
  std::lock_guard<std::mutex> lock(mu_);
  return std::exchange(ids_, {});
}

PayloadRef SharedPayload(std::shared_ptr<const Mapping> mapping, size_t size, uint32_t id,
                         std::shared_ptr<Returned> returned) {
  return std::make_shared<Shared>(std::move(mapping), size, id, std::move(returned));
}

BufferPool::~BufferPool() {
  for (const Buffer& buffer : free_) std::free(buffer.data);
}

PayloadRef BufferPool::Take(size_t size, char** data) {
  Buffer buffer{nullptr, 0};
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (size_t i = 0; i < free_.size(); ++i) {
      if (free_[i].size < size || free_[i].size / 4 > size + kRoundedTo) continue;
      buffer = free_[i];
      free_[i] = free_.back();
      free_.pop_back();
      free_bytes_ -= buffer.size;
      break;
    }
  }
  if (buffer.data == nullptr) {
    const size_t rounded = (size + size / 8) / kRoundedTo * kRoundedTo + kRoundedTo;
    void* memory = nullptr;
    if (::posix_memalign(&memory, kPayloadAlignment, rounded) != 0) return nullptr;
    buffer = {static_cast<char*>(memory), rounded};
  }
  *data = buffer.data;
  return std::make_shared<OwnPayload>(shared_from_this(), buffer, size);
}

void BufferPool::Give(Buffer buffer) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (buffer.size <= kMostFreeBytes - free_bytes_) {
      free_.push_back(buffer);
      free_bytes_ += buffer.size;
      return;
    }
  }
  std::free(buffer.data);
}

uint64_t PayloadBytesHeld() { return held; }

}  // namespace tfquiver
