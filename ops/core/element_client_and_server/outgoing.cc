#include "ops/core/element_client_and_server/outgoing.h"

#include <cstring>

namespace tfquiver {
namespace {

constexpr size_t kSmall = 2048;  // copying so much costs less than a part of its own

size_t Aligned(size_t at) {
  return (at + kPayloadAlignment - 1) / kPayloadAlignment * kPayloadAlignment;
}

}  // namespace

size_t Outgoing::Bytes::size() const {
  size_t size = own.size();
  for (const std::string_view piece : pieces) size += piece.size();
  return size;
}

void Outgoing::LayOut() {
  size_t at = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    head.components[i].offset = at = Aligned(at);
    head.components[i].size = bytes[i].size();
    at += head.components[i].size;
  }
  head.payload_bytes = at;
}

void Outgoing::CopyTo(char* to) const {
  for (size_t i = 0; i < bytes.size(); ++i) {
    char* at = to + head.components[i].offset;
    const auto copy = [&at](std::string_view piece) {
      if (piece.empty()) return;  // its data may be null
      std::memcpy(at, piece.data(), piece.size());
      at += piece.size();
    };
    copy(bytes[i].own);
    for (const std::string_view piece : bytes[i].pieces) copy(piece);
  }
}

std::vector<iovec> Outgoing::Parts(Crc32cExtend extend, std::string* scratch, uint32_t* crc) const {
  // Reserved, so that nothing moves while parts point into it.
  size_t small = 0;
  const auto count = [&small](std::string_view piece) {
    if (piece.size() < kSmall) small += piece.size();
  };
  for (const Bytes& one : bytes) {
    small += kPayloadAlignment;
    count(one.own);
    for (const std::string_view piece : one.pieces) count(piece);
  }
  scratch->clear();
  scratch->reserve(small);
  std::vector<iovec> parts;
  *crc = 0;
  size_t sent = 0;
  bool gathering = false;
  const auto add = [&](std::string_view piece) {
    if (piece.empty()) return;
    sent += piece.size();
    if (piece.size() >= kSmall) {
      gathering = false;
      parts.push_back({const_cast<char*>(piece.data()), piece.size()});
      return;
    }
    const size_t at = scratch->size();
    scratch->append(piece);
    if (gathering) {
      parts.back().iov_len += piece.size();
    } else {
      parts.push_back({scratch->data() + at, piece.size()});
      gathering = true;
    }
  };
  for (size_t i = 0; i < bytes.size(); ++i) {
    static constexpr char kNothing[kPayloadAlignment] = {};
    add(std::string_view(kNothing, head.components[i].offset - sent));
    add(bytes[i].own);
    for (const std::string_view piece : bytes[i].pieces) add(piece);
  }
  for (const iovec& part : parts) {
    *crc = extend(*crc, static_cast<const char*>(part.iov_base), part.iov_len);
  }
  return parts;
}

}  // namespace tfquiver
