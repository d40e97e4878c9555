#ifndef TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_TENSORS_AS_BYTES_TENSORS_OUT_H_
#define TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_TENSORS_AS_BYTES_TENSORS_OUT_H_

#include "ops/core/element_client_and_server/outgoing.h"
#include "ops/tf_data_transfer_plugin/data_transfer.h"

namespace tfquiver {

// An element as it travels, its tensors' memory uncopied: they live as long as *outgoing. Whatever
// gRPC can carry: an error says what cannot be.
void Describe(tensorflow::data::GetElementResult result, Outgoing* outgoing);
void DescribeError(const absl::Status& status, Outgoing* outgoing);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_TENSORS_AS_BYTES_TENSORS_OUT_H_
