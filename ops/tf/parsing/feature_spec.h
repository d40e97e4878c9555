#ifndef TFQUIVER_OPS_TF_PARSING_FEATURE_SPEC_H_
#define TFQUIVER_OPS_TF_PARSING_FEATURE_SPEC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ops/core/example_parsing/example_parser.h"
#include "ops/tf/parsing/parsing.h"
#include "tensorflow/core/framework/dataset.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/util/example_proto_fast_parsing.h"

namespace tfquiver {

// The op's attributes that say what is parsed, as in ParseExampleV2.
struct FeatureAttributes {
  std::vector<std::string> dense_keys;
  std::vector<tensorflow::DataType> dense_types;
  std::vector<tensorflow::PartialTensorShape> dense_shapes;
  std::vector<std::string> sparse_keys;
  std::vector<tensorflow::DataType> sparse_types;
  std::vector<std::string> ragged_keys;
  std::vector<tensorflow::DataType> ragged_types;
  std::vector<tensorflow::DataType> ragged_splits;

  absl::Status Read(tensorflow::OpKernelConstruction* ctx);
  bool none() const { return dense_keys.empty() && sparse_keys.empty() && ragged_keys.empty(); }
};

// Which features of tf.train.Example protos the op emits: of the dense ones a tensor each, then of
// the sparse ones indices, values and shape, then of the ragged ones values and row splits.
// Immutable.
class FeatureSpec : public Parsing {
 public:
  // `defaults`: for records that lack a dense feature, one for each. kInvalidArgument, naming the
  // feature, where something does not fit.
  static absl::Status Make(FeatureAttributes attributes, std::vector<tensorflow::Tensor> defaults,
                           std::shared_ptr<const Parsing>* spec);

  const tensorflow::example::FastParseExampleConfig& config() const { return config_; }
  // Of dense features of fixed length, where there are no others; else null.
  const ExampleParser* parser() const { return parser_.get(); }

  tensorflow::DataTypeVector Types() const override;
  std::vector<tensorflow::PartialTensorShape> Shapes(int64_t batch) const override;
  const std::vector<tensorflow::Tensor>& defaults() const override { return defaults_; }
  std::vector<std::pair<absl::string_view, tensorflow::AttrValue>> Attributes() const override;
  std::unique_ptr<BatchParser> NewParser(int64_t threads) const override;

 private:
  absl::Status Configure();
  void MakeParser();

  FeatureAttributes attributes_;
  std::vector<tensorflow::Tensor> defaults_;
  tensorflow::example::FastParseExampleConfig config_;
  std::unique_ptr<const ExampleParser> parser_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_PARSING_FEATURE_SPEC_H_
