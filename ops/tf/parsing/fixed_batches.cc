#include "ops/tf/parsing/fixed_batches.h"

#include <cstddef>
#include <cstring>
#include <string>

#include "ops/core/record_tag.h"

namespace tfquiver {
namespace {

using tensorflow::Tensor;

// What one record costs, in cycles: it comes from memory, and goes there.
constexpr int64_t kCopyCycles = 60;
constexpr int64_t kFieldCopyCycles = 20;
constexpr int64_t kBytesPerCycle = 2;

uint16_t Reversed(uint16_t number) { return __builtin_bswap16(number); }
uint32_t Reversed(uint32_t number) { return __builtin_bswap32(number); }
uint64_t Reversed(uint64_t number) { return __builtin_bswap64(number); }

template <typename Number>
void Reverse(const char* from, size_t bytes, char* to) {
  for (size_t at = 0; at < bytes; at += sizeof(Number)) {
    Number number;
    std::memcpy(&number, from + at, sizeof(number));
    number = Reversed(number);
    std::memcpy(to + at, &number, sizeof(number));
  }
}

void Copy(const FixedFields::Field& field, const char* from, char* to) {
  switch (field.reversed_bytes) {
    case 2:
      return Reverse<uint16_t>(from, field.bytes, to);
    case 4:
      return Reverse<uint32_t>(from, field.bytes, to);
    case 8:
      return Reverse<uint64_t>(from, field.bytes, to);
    default:
      std::memcpy(to, from, field.bytes);
  }
}

absl::Status WrongLength(const FixedFields& fields, const Record& record) {
  return absl::InvalidArgumentError(
      "tfquiver: parse: record " + std::to_string(TagIndex(record.tag)) + " of " + fields.part() +
      " " + std::to_string(TagShard(record.tag)) + " of data set " + fields.digest() + " has " +
      std::to_string(record.size) + " bytes, and its FixedLength fields " +
      std::to_string(fields.record_bytes()));
}

}  // namespace

absl::Status FixedBatches::Parse(tensorflow::data::IteratorContext* ctx, const Drawn& drawn,
                                 std::vector<Tensor>* out_tensors) {
  const auto records = static_cast<int64_t>(drawn.records.size());
  // Before memory is taken for what may not be there.
  for (const Record& record : drawn.records) {
    if (record.size != fields_->record_bytes()) return WrongLength(*fields_, record);
  }
  std::vector<char*> rows;
  for (const FixedFields::Field& field : fields_->fields()) {
    tensorflow::TensorShape shape({records});
    shape.AppendShape(field.shape);
    out_tensors->emplace_back(ctx->allocator({}), field.type, shape);
    rows.push_back(static_cast<char*>(out_tensors->back().data()));
  }
  const int64_t cycles = kCopyCycles + static_cast<int64_t>(rows.size()) * kFieldCopyCycles +
                         static_cast<int64_t>(fields_->record_bytes()) / kBytesPerCycle;
  threads_.InParallel(records, cycles, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const char* const from = drawn.records[static_cast<size_t>(at)].data;
      for (size_t i = 0; i < rows.size(); ++i) {
        const FixedFields::Field& field = fields_->fields()[i];
        Copy(field, from + field.offset, rows[i] + static_cast<size_t>(at) * field.bytes);
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace tfquiver
