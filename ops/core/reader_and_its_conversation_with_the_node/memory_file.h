#ifndef OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_MEMORY_FILE_H_
#define OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_MEMORY_FILE_H_

#include <string>

#include "ops/core/node_messages_socket_tickets/unix_socket.h"

namespace tfquiver {

// Memory with `bytes` in it, sealed, to pass to the node; not valid(): there is none left.
UniqueFd MemoryOf(const std::string& bytes);

}  // namespace tfquiver

#endif  // OPS_CORE_READER_AND_ITS_CONVERSATION_WITH_THE_NODE_MEMORY_FILE_H_
