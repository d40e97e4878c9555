#ifndef TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_OUTGOING_H_
#define TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_OUTGOING_H_

#include <sys/uio.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/core/bytes_checksums_tfrecords/crc32c.h"
#include "ops/core/element_messages_handshake_sockets/messages.h"

namespace tfquiver {

// An element on its way: its head, and where its bytes lie.
struct Outgoing {
  // What one component's bytes are, in order.
  struct Bytes {
    std::string own;
    std::vector<std::string_view> pieces;
    size_t size() const;
  };

  Element head;                  // with components as they are, but for offset and size
  std::vector<Bytes> bytes;      // one for each component
  std::shared_ptr<void> holder;  // what the pieces point into

  // Fills in offset and size of every component, and payload_bytes.
  void LayOut();
  // Into `payload_bytes` bytes.
  void CopyTo(char* to) const;
  // As parts for sendmsg; small pieces are gathered in *scratch. *crc is that of all of them.
  std::vector<iovec> Parts(Crc32cExtend extend, std::string* scratch, uint32_t* crc) const;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_OUTGOING_H_
