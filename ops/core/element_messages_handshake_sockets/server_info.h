#ifndef TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_SERVER_INFO_H_
#define TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_SERVER_INFO_H_

#include <string>
#include <string_view>

namespace tfquiver {

// What trainers are told of a worker's transport, by way of TensorFlow's dispatcher.
struct ServerInfo {
  std::string local_name;    // abstract Unix address; empty: none
  std::string grpc_address;  // where a worker that starts again is found; empty: it is another one
  std::string worker_id;     // of kWorkerIdBytes
};

std::string EncodeServerInfo(const ServerInfo& info);
// False for another version's.
bool DecodeServerInfo(std::string_view text, ServerInfo* info);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_SERVER_INFO_H_
