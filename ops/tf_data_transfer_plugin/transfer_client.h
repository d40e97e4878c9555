#ifndef TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_TRANSFER_CLIENT_H_
#define TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_TRANSFER_CLIENT_H_

#include <memory>
#include <mutex>
#include <string>

#include "ops/core/element_client_and_server/element_client.h"
#include "ops/core/element_messages_handshake_sockets/server_info.h"
#include "ops/tf_data_transfer_plugin/data_transfer.h"

namespace tfquiver {

// What TensorFlow's client makes for each task of a worker that offers this protocol. Goes on by
// gRPC when the worker it was made for is gone: one that was started again has its transport
// elsewhere, or where its port was is another one.
class TransferClient : public tensorflow::data::DataTransferClient {
 public:
  explicit TransferClient(Config config);
  ~TransferClient() override;

  // Connects; an error makes TensorFlow take gRPC.
  absl::Status CheckCompatibility(const std::string& server_info) const override;
  absl::Status GetElement(const tensorflow::data::GetElementRequest& request,
                          tensorflow::data::GetElementResult& result) override;
  void TryCancel() override;

 private:
  absl::Status FallBack(const Status& why, const tensorflow::data::GetElementRequest& request,
                        tensorflow::data::GetElementResult& result);

  const Config config_;
  const std::string protocol_;  // what config_.protocol looks at

  mutable std::mutex mu_;
  mutable ServerInfo info_;
  mutable bool cancelled_ = false;
  mutable std::shared_ptr<ElementClient> client_;
  std::shared_ptr<tensorflow::data::DataTransferClient> grpc_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_TRANSFER_CLIENT_H_
