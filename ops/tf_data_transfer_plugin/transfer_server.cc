#include "ops/tf_data_transfer_plugin/transfer_server.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ops/core/element_messages_handshake_sockets/handshake.h"
#include "ops/core/element_messages_handshake_sockets/own_port.h"
#include "ops/core/element_messages_handshake_sockets/server_info.h"
#include "ops/tf/status_conversion.h"
#include "ops/tf_data_transfer_plugin/get_element_request.h"
#include "ops/tf_data_transfer_plugin/process.h"
#include "ops/tf_data_transfer_plugin/tensors_as_bytes/tensors_out.h"

namespace tfquiver {

TransferServer::TransferServer(GetElementT get_element)
    : server_(std::make_shared<ElementServer>(
          TransportKeys(), TransportCrc32c(),
          [get_element = std::move(get_element)](std::string_view request, Outgoing* element) {
            Fetch(get_element, request, element);
          })) {}

absl::Status TransferServer::Start(const tensorflow::data::experimental::WorkerConfig& config) {
  // A worker on any free port comes back under another address, as another worker. Ours asks for
  // its port by number always (service/common_to_servers/tensorflow_servers/known_port.py).
  ServerInfo info;
  if (config.port() != 0) {
    info.grpc_address =
        absl::StrReplaceAll(config.worker_address(), {{"%port%", absl::StrCat(config.port())}});
  }
  info.worker_id = info.grpc_address.empty()
                       ? RandomBytes(kWorkerIdBytes)
                       : WorkerId(info.grpc_address, config.dispatcher_address());
  const int port = static_cast<int>(config.data_transfer_port());
  if (Status status = StartSomewhere(port, info); !status.ok()) return ToAbsl(status);
  info.local_name = server_->local_name();
  info_ = EncodeServerInfo(info);
  Remember(server_);
  return absl::OkStatus();
}

Status TransferServer::StartSomewhere(int port, const ServerInfo& info) {
  // Of any port its own, where it can be had, so that a worker that comes back is found where
  // dispatchers go on saying that it is.
  if (port == 0 && !info.grpc_address.empty() &&
      server_->Start(OwnPort(info.worker_id, GivenAway()), info.worker_id).ok()) {
    return Status();
  }
  return server_->Start(port, info.worker_id);
}

void TransferServer::Fetch(const GetElementT& get_element, std::string_view request,
                           Outgoing* element) {
  const std::unique_ptr<google::protobuf::MessageLite> message = NewGetElementRequest();
  if (!message->ParseFromArray(request.data(), static_cast<int>(request.size()))) {
    DescribeError(absl::InvalidArgumentError("a request that cannot be read"), element);
    return;
  }
  tensorflow::data::GetElementResult result;
  if (absl::Status status = get_element(AsRequest(message.get()), &result); !status.ok()) {
    DescribeError(status, element);
    return;
  }
  Describe(std::move(result), element);
  if (element->bytes.empty()) return;  // the end, or to be skipped
  uint64_t bytes = 0;
  for (const Outgoing::Bytes& one : element->bytes) bytes += one.size();
  CountSent(bytes);
}

}  // namespace tfquiver
