#ifndef TFQUIVER_OPS_CORE_EXAMPLE_PARSING_EXAMPLE_PARSER_H_
#define TFQUIVER_OPS_CORE_EXAMPLE_PARSING_EXAMPLE_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tfquiver {

// As numbered in the oneof of tensorflow.Feature.
enum class FeatureKind : uint8_t { kBytes = 1, kFloat = 2, kInt64 = 3 };

// A feature with so many values of a kind in every record.
struct DenseFeature {
  std::string name;
  FeatureKind kind = FeatureKind::kInt64;
  size_t values = 1;
  bool may_lack = false;  // there are values for records that do not have it
};

// Where the values of one record go: of each feature, in the order given to the parser, room for
// its numbers (float or int64_t), or for views into the record.
struct ExampleRow {
  std::vector<void*> of;
};

// Finds the values of dense features in serialised tf.train.Example protos. Immutable.
class ExampleParser {
 public:
  explicit ExampleParser(std::vector<DenseFeature> features);

  // False when `record` is not of the usual form, or has a feature twice, lacks one that it must
  // have, or has another number of values than it should: then something else has to look at it,
  // and what was written means nothing. Else (*seen)[i] says whether feature i is there.
  bool Parse(std::string_view record, const ExampleRow& row, std::vector<uint8_t>* seen) const;

  const std::vector<DenseFeature>& features() const { return features_; }

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  uint32_t Find(std::string_view name) const;

  const std::vector<DenseFeature> features_;
  size_t needed_ = 0;            // that no record may lack
  std::vector<uint32_t> slots_;  // a hash table of indexes, at most a quarter full
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_EXAMPLE_PARSING_EXAMPLE_PARSER_H_
