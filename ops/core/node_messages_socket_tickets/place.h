#ifndef TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_PLACE_H_
#define TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_PLACE_H_

#include <cstdint>

namespace tfquiver {

// Where a shard stands in the order of its session; all zero where the session has none.
struct Place {
  uint32_t unit = 0;           // stripe unit + 1 of a homogeneous session
  uint64_t position = 0;       // how many of the data set's records stand before its block
  uint32_t offset = 0;         // how many of the block's before this shard
  uint32_t block_records = 0;  // in the whole block, whoever reads it; 0: there are no blocks
  uint32_t block_shards = 0;   // of the block that come to this reader
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_NODE_MESSAGES_SOCKET_TICKETS_PLACE_H_
