#ifndef TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_PROCESS_H_
#define TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_PROCESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/core/bytes_checksums_tfrecords/crc32c.h"
#include "ops/core/element_client_and_server/element_server.h"

namespace tfquiver {

// What Python has told this process of the element transport, and what it does there. Thread-safe.

// A token that this process holds: it lets in who holds one of them, and proves one to workers.
void AddTransportToken(std::string_view token);
std::vector<std::string> TransportKeys();

// Servers of this process, so that Python can close them: TensorFlow has no word for it.
void Remember(const std::shared_ptr<ElementServer>& server);
void CloseTransports();
void JoinTransports();

struct TransportCounts {
  uint64_t elements_sent = 0;
  uint64_t bytes_sent = 0;
  uint64_t elements_received = 0;
  uint64_t bytes_received = 0;
  uint64_t fallbacks = 0;  // clients that went on by gRPC
};
void CountSent(uint64_t bytes);
void CountReceived(uint64_t bytes);
void CountFallback();
TransportCounts Counts();

Crc32cExtend TransportCrc32c();

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_PROCESS_H_
