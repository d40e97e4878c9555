#include "ops/tf/live_position.h"

#include <utility>

#include "ops/tf/tensor_parts.h"
#include "tensorflow/core/framework/variant_op_registry.h"

namespace tfquiver {

std::string LivePosition::Text() const {
  if (whereabouts_ == nullptr) return text_;
  Checkpoint checkpoint = whereabouts_->At(mark_);
  checkpoint.ended = ended_;
  return WriteCheckpoint(checkpoint, Crc32c(), Zlib());
}

void LivePosition::Encode(tensorflow::VariantTensorData* data) const {
  data->set_type_name(TypeName());
  data->set_metadata(Text());
}

bool LivePosition::Decode(tensorflow::VariantTensorData data) {
  whereabouts_ = nullptr;
  mark_ = Trail::Mark();
  return data.get_metadata(&text_);
}

REGISTER_UNARY_VARIANT_DECODE_FUNCTION(LivePosition, LivePosition::kTypeName);

}  // namespace tfquiver
