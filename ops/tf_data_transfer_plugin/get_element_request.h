#ifndef TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_GET_ELEMENT_REQUEST_H_
#define TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_GET_ELEMENT_REQUEST_H_

#include <memory>
#include <string>
#include <string_view>

#include "google/protobuf/message_lite.h"
#include "ops/tf_data_transfer_plugin/data_transfer.h"

namespace tfquiver {

// TensorFlow's request, of which no more is known than that it is a protocol message: a new one is
// had from the type's own default instance, which libtensorflow_cc exports.
std::unique_ptr<google::protobuf::MessageLite> NewGetElementRequest();

inline const google::protobuf::MessageLite& AsMessage(
    const tensorflow::data::GetElementRequest& request) {
  return reinterpret_cast<const google::protobuf::MessageLite&>(request);
}

inline const tensorflow::data::GetElementRequest* AsRequest(
    const google::protobuf::MessageLite* message) {
  return reinterpret_cast<const tensorflow::data::GetElementRequest*>(message);
}

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_DATA_TRANSFER_PLUGIN_GET_ELEMENT_REQUEST_H_
