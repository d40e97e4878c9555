#include "ops/tf_data_transfer_plugin/get_element_request.h"

namespace tensorflow {
namespace data {

// Of a type that generated code keeps to itself; only its address is used.
extern char _GetElementRequest_default_instance_;

}  // namespace data
}  // namespace tensorflow

namespace tfquiver {

std::unique_ptr<google::protobuf::MessageLite> NewGetElementRequest() {
  const void* instance = &tensorflow::data::_GetElementRequest_default_instance_;
  return std::unique_ptr<google::protobuf::MessageLite>(
      static_cast<const google::protobuf::MessageLite*>(instance)->New());
}

}  // namespace tfquiver
