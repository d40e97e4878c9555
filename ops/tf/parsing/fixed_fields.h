#ifndef TFQUIVER_OPS_TF_PARSING_FIXED_FIELDS_H_
#define TFQUIVER_OPS_TF_PARSING_FIXED_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/tf/parsing/parsing.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tfquiver {

// The op's attributes that say what the bytes of every record are.
struct FieldAttributes {
  std::vector<tensorflow::DataType> types;
  std::vector<tensorflow::PartialTensorShape> shapes;
  std::vector<bool> little_endian;
  std::vector<int64_t> offsets;  // in the record, in bytes

  absl::Status Read(tensorflow::OpKernelConstruction* ctx);
  bool none() const { return types.empty(); }
};

// Fields of numbers that stand at the same places in every record: a tensor of each. A record ends
// with the last of them.
class FixedFields : public Parsing {
 public:
  struct Field {
    tensorflow::DataType type;
    tensorflow::TensorShape shape;  // in one record
    size_t offset;                  // bytes from the start of the record
    size_t bytes;                   // in one record
    size_t reversed_bytes;  // so many at a time stand the other way round; 1: all as they are
  };

  // For errors, `digest_id`: the data set's; `part`: what tags count, shards or draws.
  // kInvalidArgument where something does not fit.
  static absl::Status Make(FieldAttributes attributes, const std::string& digest_id,
                           std::string part, std::shared_ptr<const Parsing>* fields);

  const std::vector<Field>& fields() const { return fields_; }
  size_t record_bytes() const { return record_bytes_; }
  const std::string& digest() const { return digest_; }
  const std::string& part() const { return part_; }

  tensorflow::DataTypeVector Types() const override;
  std::vector<tensorflow::PartialTensorShape> Shapes(int64_t batch) const override;
  const std::vector<tensorflow::Tensor>& defaults() const override { return defaults_; }
  std::vector<std::pair<absl::string_view, tensorflow::AttrValue>> Attributes() const override;
  std::unique_ptr<BatchParser> NewParser(int64_t threads) const override;

 private:
  FieldAttributes attributes_;
  std::string digest_;
  std::string part_;
  std::vector<Field> fields_;
  size_t record_bytes_ = 0;
  const std::vector<tensorflow::Tensor> defaults_;  // none
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_PARSING_FIXED_FIELDS_H_
