#ifndef TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_SHARED_MEMORY_H_
#define TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_SHARED_MEMORY_H_

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "ops/core/node_messages_socket_tickets/unix_socket.h"

namespace tfquiver {

// Memory that a worker writes and a trainer on its machine reads, by its descriptor. It cannot
// shrink or grow any more: who maps it is never killed for looking at it.
class ElementMemory {
 public:
  // nullptr when there is none to be had.
  static std::unique_ptr<ElementMemory> Make(size_t size);
  ElementMemory(ElementMemory&&) = delete;
  ~ElementMemory();

  // Its pages go back to the kernel, whoever maps it: what is looked at next is zeros.
  void LetGoOfPages();

  char* data() const { return data_; }
  size_t size() const { return size_; }
  int fd() const { return fd_.get(); }

 private:
  ElementMemory(UniqueFd fd, char* data, size_t size)
      : fd_(std::move(fd)), data_(data), size_(size) {}

  UniqueFd fd_;
  char* const data_;
  const size_t size_;
};

// The memory of one connection. What the trainer has released is written again: new pages cost more
// than what is copied into them. What a peak has left, and is not written again soon, keeps no
// pages. Not thread-safe.
class MemoryPool {
 public:
  struct Taken {
    uint32_t id = 0;
    ElementMemory* memory = nullptr;  // null: there is none left, the element travels otherwise
    bool is_new = false;              // the trainer has not got its descriptor yet
  };

  explicit MemoryPool(size_t most_bytes) : most_bytes_(most_bytes) {}

  Taken Take(size_t size);
  // False for what the trainer has not got.
  bool Release(uint32_t id);
  // Nothing has been asked for in a while: what is not taken keeps no pages.
  void Rest();

 private:
  struct Piece {
    std::unique_ptr<ElementMemory> memory;
    bool taken = false;
    bool has_pages = false;
    uint64_t taken_at = 0;  // of takes_
  };

  // Of what has not been taken for so many times.
  void LetGoOfPages(uint64_t times);
  // Makes room for one of `size`, of what is not taken.
  void LetGoOfPieces(size_t size);
  bool HasRoom(size_t size) const;

  const size_t most_bytes_;
  size_t bytes_ = 0;
  uint64_t takes_ = 0;
  uint32_t last_id_ = 0;
  std::unordered_map<uint32_t, Piece> pieces_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_SHARED_MEMORY_H_
