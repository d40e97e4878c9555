#ifndef TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_RECEIVED_MEMORY_H_
#define TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_RECEIVED_MEMORY_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/core/node_messages_socket_tickets/unix_socket.h"

namespace tfquiver {

// An element's payload, as long as somebody looks at it. Read-only. Let go by any thread.
class Payload {
 public:
  virtual ~Payload() = default;
  std::string_view bytes() const { return bytes_; }

 protected:
  explicit Payload(std::string_view bytes) : bytes_(bytes) {}

 private:
  const std::string_view bytes_;
};
using PayloadRef = std::shared_ptr<const Payload>;

// A worker's memory, mapped here.
class Mapping {
 public:
  // nullptr unless it has that size and can never shrink.
  static std::shared_ptr<const Mapping> Map(const UniqueFd& fd, uint64_t size);
  Mapping(Mapping&&) = delete;
  ~Mapping();
  std::string_view bytes() const { return bytes_; }

 private:
  explicit Mapping(std::string_view bytes) : bytes_(bytes) {}
  const std::string_view bytes_;
};

// Which of a worker's memory is not looked at any more, until the worker is told.
class Returned {
 public:
  void Add(uint32_t id);
  std::vector<uint32_t> Take();

 private:
  std::mutex mu_;
  std::vector<uint32_t> ids_;
};

// The first `size` bytes of the mapping `id`. When it goes, *returned learns of it.
PayloadRef SharedPayload(std::shared_ptr<const Mapping> mapping, size_t size, uint32_t id,
                         std::shared_ptr<Returned> returned);

// Memory for what comes over the network. What is let go is used again, a bounded part of it.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  ~BufferPool();
  // *data is where to write, before anybody else sees it; nullptr when there is no memory.
  PayloadRef Take(size_t size, char** data);

 private:
  friend class OwnPayload;
  struct Buffer {
    char* data;
    size_t size;
  };
  void Give(Buffer buffer);

  std::mutex mu_;
  std::vector<Buffer> free_;
  size_t free_bytes_ = 0;
};

// Bytes of all payloads of this process that somebody looks at.
uint64_t PayloadBytesHeld();

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_RECEIVED_MEMORY_H_
