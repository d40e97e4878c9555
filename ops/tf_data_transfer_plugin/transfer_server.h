#ifndef TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_TRANSFER_SERVER_H_
#define TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_TRANSFER_SERVER_H_

#include <memory>
#include <string>

#include "ops/core/element_client_and_server/element_server.h"
#include "ops/core/element_messages_handshake_sockets/server_info.h"
#include "ops/tf_data_transfer_plugin/data_transfer.h"

namespace tfquiver {

inline constexpr char kProtocol[] = "tfquiver";

// What TensorFlow's worker starts where its configuration says data_transfer_protocol: "tfquiver".
// TensorFlow never stops it, and may delete what `get_element` is made of before it: whoever stops
// a worker closes the process's transports first (CloseTransports), then the worker, then joins.
class TransferServer : public tensorflow::data::DataTransferServer {
 public:
  explicit TransferServer(GetElementT get_element);

  absl::Status Start(const tensorflow::data::experimental::WorkerConfig& config) override;
  int Port() const override { return server_->port(); }
  absl::StatusOr<std::string> GetCompatibilityInfo() const override { return info_; }
  // An error of the pipeline is an error of the epoch: asked again by gRPC, the worker would go on
  // behind it as if nothing had been.
  bool FallBackToGrpcAtGetElementTime() const override { return false; }

 private:
  Status StartSomewhere(int port, const ServerInfo& info);
  static void Fetch(const GetElementT& get_element, std::string_view request, Outgoing* element);

  std::shared_ptr<ElementServer> server_;
  std::string info_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_TRANSFER_SERVER_H_
