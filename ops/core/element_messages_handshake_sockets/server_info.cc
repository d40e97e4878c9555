#include "ops/core/element_messages_handshake_sockets/server_info.h"

#include "ops/core/bytes_checksums_tfrecords/bytes.h"
#include "ops/core/element_messages_handshake_sockets/handshake.h"

namespace tfquiver {
namespace {

constexpr Signature kSignature{"TFQT", 2};

}  // namespace

std::string EncodeServerInfo(const ServerInfo& info) {
  std::string text;
  PutSignature(kSignature, &text);
  PutSized<uint8_t>(info.local_name, &text);
  PutSized<uint16_t>(info.grpc_address, &text);
  text.append(info.worker_id);
  return text;
}

bool DecodeServerInfo(std::string_view text, ServerInfo* info) {
  uint8_t version;
  std::string_view local_name, grpc_address, worker_id;
  if (!GetSignature(kSignature, &text, &version) || version != kSignature.version ||
      !GetSized<uint8_t>(&text, &local_name) || !GetSized<uint16_t>(&text, &grpc_address) ||
      !GetRaw(&text, kWorkerIdBytes, &worker_id) || !text.empty()) {
    return false;
  }
  info->local_name = local_name;
  info->grpc_address = grpc_address;
  info->worker_id = worker_id;
  return true;
}

}  // namespace tfquiver
