#ifndef TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_TENSORS_AS_BYTES_TENSORS_IN_H_
#define TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_TENSORS_AS_BYTES_TENSORS_IN_H_

#include "ops/core/element_client_and_server/received_memory.h"
#include "ops/core/element_messages_handshake_sockets/messages.h"
#include "ops/tf_data_transfer_plugin/data_transfer.h"

namespace tfquiver {

// The element that came, or the error. Its tensors look into `payload` as long as this process does
// not hold too much that way already; then they are copies.
absl::Status MakeResult(const Element& element, const PayloadRef& payload,
                        tensorflow::data::GetElementResult* result);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_TENSORS_AS_BYTES_TENSORS_IN_H_
