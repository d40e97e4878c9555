// The C interface that Python uses through ctypes. Nothing else leaves this library.

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "ops/tf_data_transfer_plugin/process.h"
#include "ops/tf_data_transfer_plugin/transfer_client.h"
#include "ops/tf_data_transfer_plugin/transfer_server.h"

#define TFQUIVER_EXPORT extern "C" __attribute__((visibility("default")))

using tensorflow::data::DataTransferClient;
using tensorflow::data::DataTransferServer;

// Offers the protocol to TensorFlow, once.
TFQUIVER_EXPORT void tfq_transport_register() {
  static std::once_flag once;
  std::call_once(once, [] {
    DataTransferServer::Register(
        tfquiver::kProtocol, [](DataTransferServer::GetElementT get_element,
                                std::shared_ptr<DataTransferServer>* server) {
          *server = std::make_shared<tfquiver::TransferServer>(std::move(get_element));
          return absl::OkStatus();
        });
    DataTransferClient::Register(
        tfquiver::kProtocol,
        [](DataTransferClient::Config config, std::unique_ptr<DataTransferClient>* client) {
          *client = std::make_unique<tfquiver::TransferClient>(std::move(config));
          return absl::OkStatus();
        });
  });
}

TFQUIVER_EXPORT void tfq_transport_add_token(const char* token) {
  tfquiver::AddTransportToken(token);
}

TFQUIVER_EXPORT void tfq_transport_close() { tfquiver::CloseTransports(); }

TFQUIVER_EXPORT void tfq_transport_join() { tfquiver::JoinTransports(); }

TFQUIVER_EXPORT void tfq_transport_counts(uint64_t counts[5]) {
  const tfquiver::TransportCounts found = tfquiver::Counts();
  counts[0] = found.elements_sent;
  counts[1] = found.bytes_sent;
  counts[2] = found.elements_received;
  counts[3] = found.bytes_received;
  counts[4] = found.fallbacks;
}

TFQUIVER_EXPORT const char* tfq_build_info() {
  return "{\"tensorflow\": \"" TFQUIVER_TF_VERSION "\", \"compiler\": \"" __VERSION__ "\"}";
}
