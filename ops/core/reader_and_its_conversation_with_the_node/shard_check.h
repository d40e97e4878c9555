#ifndef TFQUIVER_OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_SHARD_CHECK_H_
#define TFQUIVER_OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_SHARD_CHECK_H_

#include <cstdint>

#include "ops/core/node_messages_socket_tickets/frame.h"
#include "ops/core/status.h"

namespace tfquiver {

// No shard is longer, in raw bytes (tfquiver/digests/digest_file.py).
inline constexpr uint64_t kMostShardBytes = uint64_t{1} << 32;

// Of its picks, each of a bit a record (ShardFrame).
inline constexpr uint64_t kMostPlanes = 64;

// What a SHARD frame says is believed only within what its session can hand out: everything that is
// sized or indexed by its numbers is safe after this. kAborted, naming the field.
Status Validate(const ShardFrame& shard, const SessionWish& wish, const Opened& opened);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_SHARD_CHECK_H_
