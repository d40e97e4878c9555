#include "ops/core/element_wire/server_info.h"

#include "ops/core/record_format/bytes.h"

namespace tfquiver {
namespace {

constexpr Signature kSignature{"TFQT", 1};

}  // namespace

std::string EncodeServerInfo(const ServerInfo& info) {
  std::string text;
  PutSignature(kSignature, &text);
  PutSized<uint8_t>(info.local_name, &text);
  PutSized<uint16_t>(info.grpc_address, &text);
  return text;
}

bool DecodeServerInfo(std::string_view text, ServerInfo* info) {
  uint8_t version;
  std::string_view local_name, grpc_address;
  if (!GetSignature(kSignature, &text, &version) || version != kSignature.version ||
      !GetSized<uint8_t>(&text, &local_name) || !GetSized<uint16_t>(&text, &grpc_address) ||
      !text.empty()) {
    return false;
  }
  info->local_name = local_name;
  info->grpc_address = grpc_address;
  return true;
}

}  // namespace tfquiver
