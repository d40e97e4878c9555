#include "ops/tf_data_transfer_plugin/tensors_as_bytes/tensors_in.h"

#include <cstring>
#include <utility>

#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/dataset.pb.h"
#include "tensorflow/core/framework/tensor.pb.h"
#include "tensorflow/core/framework/variant.h"

namespace tfquiver {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;
using tensorflow::data::CompressedElement;

// Payloads that tensors look into are kept whole for the last of them: what is buffered long, or
// thinned out, is copied once so much is held.
constexpr uint64_t kMostHeldBytes = uint64_t{512} << 20;
constexpr size_t kWorthAView = 64;  // a shorter string is copied faster than it is counted

// A tensor's memory within a payload. Not its own: no kernel writes into it.
class PayloadBuffer : public tensorflow::TensorBuffer {
 public:
  PayloadBuffer(PayloadRef payload, std::string_view bytes)
      : TensorBuffer(const_cast<char*>(bytes.data())),
        payload_(std::move(payload)),
        size_(bytes.size()) {}

  size_t size() const override { return size_; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription* proto) const override {
    proto->set_requested_bytes(static_cast<int64_t>(size_));
    proto->set_allocator_name("tfquiver element");
  }
  bool OwnsMemory() const override { return false; }

 private:
  const PayloadRef payload_;
  const size_t size_;
};

absl::Status Malformed(const char* what) {
  return absl::DataLossError(absl::StrCat("an element of a tf.data worker is malformed: ", what));
}

absl::Status Strings(std::string_view bytes, const PayloadRef& payload, bool copy, Tensor* tensor) {
  auto strings = tensor->flat<tstring>();
  const auto count = static_cast<size_t>(strings.size());
  size_t at = count * sizeof(uint64_t);
  // One owner for all: the payload lives as long as one of its strings does.
  auto* owner = new tstring::owner<PayloadRef>(payload);
  absl::Status status;
  for (size_t i = 0; i < count; ++i) {
    uint64_t size;
    std::memcpy(&size, bytes.data() + i * sizeof(size), sizeof(size));
    if (size > bytes.size() - at) {
      status = Malformed("a string beyond its end");
      break;
    }
    const std::string_view text = bytes.substr(at, size);
    if (copy || size < kWorthAView) {
      strings(static_cast<int64_t>(i)).assign(text.data(), text.size());
    } else {
      strings(static_cast<int64_t>(i)).assign_as_shared_view(text.data(), text.size(), owner);
    }
    at += size;
  }
  owner->Unref();
  if (status.ok() && at != bytes.size()) status = Malformed("bytes behind its strings");
  return status;
}

absl::Status Raw(tensorflow::DataType dtype, const TensorShape& shape, std::string_view bytes,
                 const PayloadRef& payload, bool copy, Tensor* tensor) {
  const auto size = static_cast<uint64_t>(tensorflow::DataTypeSize(dtype));
  if (size == 0 || bytes.size() != static_cast<uint64_t>(shape.num_elements()) * size) {
    return Malformed("its shape needs another number of bytes");
  }
  if (copy || bytes.empty()) {
    *tensor = Tensor(dtype, shape);
    if (!bytes.empty()) std::memcpy(tensor->data(), bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  *tensor = Tensor(
      dtype, shape,
      tensorflow::core::RefCountPtr<tensorflow::TensorBuffer>(new PayloadBuffer(payload, bytes)));
  return absl::OkStatus();
}

absl::Status MakeTensor(const Component& component, const PayloadRef& payload, bool copy,
                        Tensor* tensor) {
  const std::string_view all = payload == nullptr ? std::string_view() : payload->bytes();
  if (component.offset > all.size() || component.size > all.size() - component.offset) {
    return Malformed("a tensor beyond its end");
  }
  const std::string_view bytes = all.substr(component.offset, component.size);
  if (!tensorflow::DataType_IsValid(component.dtype)) return Malformed("an unknown type");
  const auto dtype = static_cast<tensorflow::DataType>(component.dtype);
  TensorShape shape;
  if (absl::Status status = TensorShape::BuildTensorShape(component.dims, &shape); !status.ok()) {
    return Malformed("an impossible shape");
  }
  switch (component.kind) {
    case Component::kRaw:
      if (!tensorflow::DataTypeCanUseMemcpy(dtype)) return Malformed("a type that is no bytes");
      return Raw(dtype, shape, bytes, payload, copy, tensor);
    case Component::kStrings:
      if (dtype != tensorflow::DT_STRING ||
          static_cast<uint64_t>(shape.num_elements()) > bytes.size() / sizeof(uint64_t)) {
        return Malformed("fewer lengths than strings");
      }
      *tensor = Tensor(dtype, shape);
      return Strings(bytes, payload, copy, tensor);
    case Component::kCompressed: {
      CompressedElement compressed;
      if (!compressed.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
        return Malformed("a compressed element that cannot be read");
      }
      *tensor = Tensor(tensorflow::DT_VARIANT, TensorShape{});
      tensor->scalar<tensorflow::Variant>()() = std::move(compressed);
      return absl::OkStatus();
    }
    case Component::kProto: {
      tensorflow::TensorProto proto;
      if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
          !tensor->FromProto(proto)) {
        return Malformed("a tensor that cannot be read (data sets cannot be sent)");
      }
      return absl::OkStatus();
    }
  }
  return Malformed("a component of an unknown kind");
}

}  // namespace

absl::Status MakeResult(const Element& element, const PayloadRef& payload,
                        tensorflow::data::GetElementResult* result) {
  if (element.code != Code::kOk) {
    return absl::Status(static_cast<absl::StatusCode>(element.code), element.message);
  }
  result->end_of_sequence = element.end_of_sequence;
  result->skip = element.skip;
  result->element_index = element.index;
  result->components.clear();
  const bool copy = PayloadBytesHeld() > kMostHeldBytes;
  for (const Component& component : element.components) {
    Tensor tensor;
    if (absl::Status status = MakeTensor(component, payload, copy, &tensor); !status.ok()) {
      return status;
    }
    result->components.push_back(std::move(tensor));
  }
  return absl::OkStatus();
}

}  // namespace tfquiver
