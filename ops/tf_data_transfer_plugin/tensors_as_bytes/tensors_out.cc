#include "ops/tf_data_transfer_plugin/tensors_as_bytes/tensors_out.h"

#include <utility>

#include "tensorflow/core/framework/dataset.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/variant.h"

namespace tfquiver {
namespace {

using tensorflow::Tensor;
using tensorflow::tstring;
using tensorflow::Variant;
using tensorflow::data::CompressedElement;

void DescribeStrings(const Tensor& tensor, Outgoing::Bytes* bytes) {
  const auto strings = tensor.flat<tstring>();
  bytes->own.resize(static_cast<size_t>(strings.size()) * sizeof(uint64_t));
  bytes->pieces.reserve(static_cast<size_t>(strings.size()));
  for (int64_t i = 0; i < strings.size(); ++i) {
    const uint64_t size = strings(i).size();
    std::memcpy(bytes->own.data() + i * sizeof(size), &size, sizeof(size));
    bytes->pieces.emplace_back(strings(i).data(), size);
  }
}

const CompressedElement* Compressed(const Tensor& tensor) {
  if (tensor.dtype() != tensorflow::DT_VARIANT || tensor.dims() != 0) return nullptr;
  return tensor.scalar<Variant>()().get<CompressedElement>();
}

// False: it cannot travel.
bool DescribeTensor(const Tensor& tensor, Component* component, Outgoing::Bytes* bytes) {
  component->dtype = tensor.dtype();
  for (int i = 0; i < tensor.dims(); ++i) component->dims.push_back(tensor.dim_size(i));
  if (tensor.dtype() == tensorflow::DT_STRING) {
    component->kind = Component::kStrings;
    DescribeStrings(tensor, bytes);
  } else if (tensorflow::DataTypeCanUseMemcpy(tensor.dtype())) {
    component->kind = Component::kRaw;
    bytes->pieces.push_back(tensor.tensor_data());
  } else if (const CompressedElement* compressed = Compressed(tensor)) {
    component->kind = Component::kCompressed;
    return compressed->SerializeToString(&bytes->own);
  } else {
    component->kind = Component::kProto;
    tensorflow::TensorProto proto;
    tensor.AsProtoTensorContent(&proto);
    return proto.SerializeToString(&bytes->own);
  }
  return true;
}

}  // namespace

void Describe(tensorflow::data::GetElementResult result, Outgoing* outgoing) {
  Element& head = outgoing->head;
  head.end_of_sequence = result.end_of_sequence;
  head.skip = result.skip;
  head.index = result.element_index;
  auto components = std::make_shared<std::vector<Tensor>>(std::move(result.components));
  head.components.resize(components->size());
  outgoing->bytes.resize(components->size());
  for (size_t i = 0; i < components->size(); ++i) {
    if (!DescribeTensor((*components)[i], &head.components[i], &outgoing->bytes[i])) {
      DescribeError(absl::InvalidArgumentError(absl::StrCat(
                        "component ", i, " of the element, ", (*components)[i].DebugString(1),
                        ", is too large to be sent: 2 GiB is most for its type")),
                    outgoing);
      return;
    }
  }
  outgoing->holder = std::move(components);
}

void DescribeError(const absl::Status& status, Outgoing* outgoing) {
  *outgoing = Outgoing();
  outgoing->head.code = static_cast<Code>(status.raw_code());
  outgoing->head.message = std::string(status.message());
}

}  // namespace tfquiver
