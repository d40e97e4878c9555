#include "ops/tf/saving_into_tensorflow_checkpoints/live_position.h"

#include <algorithm>
#include <utility>

#include "ops/tf/tensor_parts.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/variant_op_registry.h"

namespace tfquiver {

std::vector<std::string> LivePosition::Texts() const {
  if (whereabouts_ == nullptr) return texts_;
  std::vector<std::string> texts;
  for (Checkpoint& checkpoint : whereabouts_->At(mark_)) {
    checkpoint.ended = texts.empty() && ended_;
    texts.push_back(WriteCheckpoint(checkpoint, Crc32c(), Zlib()));
  }
  return texts;
}

void LivePosition::Encode(tensorflow::VariantTensorData* data) const {
  const std::vector<std::string> texts = Texts();
  tensorflow::Tensor strings(tensorflow::DT_STRING,
                             tensorflow::TensorShape({static_cast<int64_t>(texts.size())}));
  std::copy(texts.begin(), texts.end(), strings.flat<tensorflow::tstring>().data());
  data->set_type_name(TypeName());
  *data->add_tensors() = std::move(strings);
}

bool LivePosition::Decode(tensorflow::VariantTensorData data) {
  if (data.tensors_size() != 1 || data.tensors(0).dtype() != tensorflow::DT_STRING) return false;
  whereabouts_ = nullptr;
  mark_ = Trail::Mark();
  const auto strings = data.tensors(0).flat<tensorflow::tstring>();
  texts_.assign(strings.data(), strings.data() + strings.size());
  return true;
}

REGISTER_UNARY_VARIANT_DECODE_FUNCTION(LivePosition, LivePosition::kTypeName);

}  // namespace tfquiver
