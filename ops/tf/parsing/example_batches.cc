#include "ops/tf/parsing/example_batches.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "ops/tf/shared_strings.h"

namespace tfquiver {
namespace {

using tensorflow::Tensor;
using tensorflow::tstring;

// What one record costs, in cycles.
constexpr int64_t kRecordCycles = 300;
constexpr int64_t kFeatureCycles = 100;
// Of a large record only what is at least such a part of it keeps the whole of it: whoever keeps
// its name does not keep its image.
constexpr size_t kLeastPart = 4;
constexpr size_t kSurelyThereBytes = size_t{1} << 30;

// A record that was read into a string of its own, with which strings share its bytes.
class WholeRecord : public HeldMemory {
 public:
  explicit WholeRecord(tstring record) : record_(std::move(record)) {}

 private:
  const tstring record_;
};

// Of a record, an owner for the strings that are made of it.
class OwnerOf {
 public:
  explicit OwnerOf(const Record& record)
      : begin_(record.data), end_(record.data + record.size), owner_(record.owner) {
    if (record.alone) least_ = std::max(least_, record.size / kLeastPart);
    if (record.blob == nullptr || !SharedTstrings::kAreThere) return;
    // Its bytes stay where they are: a string that is moved takes them along.
    auto* const blob = static_cast<tstring*>(record.blob);
    if (blob->type() != tstring::LARGE) return;
    owner_ = SharedTstrings::Own(std::make_unique<WholeRecord>(std::move(*blob)));
    made_ = true;
    least_ = std::max(least_, record.size / kLeastPart);
  }
  ~OwnerOf() {
    if (made_) SharedTstrings::LetGo(owner_);
  }
  OwnerOf(const OwnerOf&) = delete;
  OwnerOf& operator=(const OwnerOf&) = delete;

  void Assign(std::string_view text, tstring* to) const {
    // Defaults lie elsewhere.
    const bool mine = text.data() >= begin_ && text.data() < end_;
    if (!mine || owner_ == nullptr || text.size() < least_) {
      to->assign(text.data(), text.size());
    } else {
      SharedTstrings::Assign(text.data(), text.size(), owner_, to);
    }
  }

 private:
  const char* const begin_;
  const char* const end_;
  void* owner_;
  bool made_ = false;
  size_t least_ = kLeastSharedBytes;
};

// Of numbers.
char* RowOf(Tensor* tensor, int64_t row, size_t values) {
  const size_t value_bytes = static_cast<size_t>(tensorflow::DataTypeSize(tensor->dtype()));
  return static_cast<char*>(tensor->data()) + static_cast<size_t>(row) * values * value_bytes;
}

}  // namespace

ExampleBatches::ExampleBatches(const FeatureSpec* spec, int64_t threads)
    : spec_(spec), threads_(threads), texts_(spec_->config().dense.size()) {}

absl::Status ExampleBatches::Parse(tensorflow::data::IteratorContext* ctx, const Drawn& drawn,
                                   std::vector<Tensor>* out_tensors) {
  bool usual = false;
  if (spec_->parser() != nullptr) {
    TF_RETURN_IF_ERROR(ParseUsual(ctx, drawn, out_tensors, &usual));
  }
  return usual ? absl::OkStatus() : ParseAny(ctx, drawn, out_tensors);
}

absl::Status ExampleBatches::ParseUsual(tensorflow::data::IteratorContext* ctx, const Drawn& drawn,
                                        std::vector<Tensor>* out_tensors, bool* usual) {
  const ExampleParser& parser = *spec_->parser();
  const auto& dense = spec_->config().dense;
  const auto records = static_cast<int64_t>(drawn.records.size());
  const int64_t cycles = kRecordCycles + static_cast<int64_t>(dense.size()) * kFeatureCycles;
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < dense.size(); ++i) {
    tensorflow::TensorShape shape({records});
    for (int d = 0; d < dense[i].shape.dims(); ++d) shape.AddDim(dense[i].shape.dim_size(d));
    tensors.emplace_back(ctx->allocator({}), dense[i].dtype, shape);
    if (!tensors.back().IsInitialized()) {
      return absl::ResourceExhaustedError("tfquiver: parse: feature " + parser.features()[i].name +
                                          ": no memory for a batch of shape " +
                                          shape.DebugString());
    }
    if (dense[i].dtype == tensorflow::DT_STRING) {
      texts_[i].resize(drawn.records.size() * parser.features()[i].values);
    }
  }
  std::atomic<bool> all_usual{true};
  threads_.InParallel(records, cycles, [&](int64_t begin, int64_t end) {
    ExampleRow row;
    row.of.resize(dense.size());
    std::vector<uint8_t> seen;
    for (int64_t at = begin; at < end && all_usual.load(std::memory_order_relaxed); ++at) {
      const Record& record = drawn.records[static_cast<size_t>(at)];
      for (size_t i = 0; i < dense.size(); ++i) {
        const size_t values = parser.features()[i].values;
        row.of[i] = dense[i].dtype == tensorflow::DT_STRING
                        ? static_cast<void*>(&texts_[i][static_cast<size_t>(at) * values])
                        : RowOf(&tensors[i], at, values);
      }
      if (!parser.Parse({record.data, record.size}, row, &seen)) {
        all_usual.store(false, std::memory_order_relaxed);
        return;
      }
      for (size_t i = 0; i < dense.size(); ++i) {
        if (seen[i] != 0) continue;
        const Tensor& value = dense[i].default_value;
        const size_t values = parser.features()[i].values;
        if (dense[i].dtype == tensorflow::DT_STRING) {
          const tstring* from = value.flat<tstring>().data();
          for (size_t j = 0; j < values; ++j) {
            texts_[i][static_cast<size_t>(at) * values + j] = {from[j].data(), from[j].size()};
          }
        } else {
          std::memcpy(row.of[i], value.data(), value.TotalBytes());
        }
      }
    }
  });
  if (!all_usual.load()) return absl::OkStatus();
  // Strings last: from here on nothing fails, and the records' own may be taken.
  bool any_texts = false;
  for (const auto& feature : dense) any_texts |= feature.dtype == tensorflow::DT_STRING;
  if (any_texts) {
    threads_.InParallel(records, cycles, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const OwnerOf owner(drawn.records[static_cast<size_t>(at)]);
        for (size_t i = 0; i < dense.size(); ++i) {
          if (dense[i].dtype != tensorflow::DT_STRING) continue;
          const size_t values = parser.features()[i].values;
          const size_t first = static_cast<size_t>(at) * values;
          tstring* to = static_cast<tstring*>(tensors[i].data()) + first;
          const std::string_view* from = &texts_[i][first];
          for (size_t j = 0; j < values; ++j) owner.Assign(from[j], to + j);
        }
      }
    });
  }
  for (Tensor& tensor : tensors) out_tensors->push_back(std::move(tensor));
  *usual = true;
  return absl::OkStatus();
}

absl::Status ExampleBatches::ParseAny(tensorflow::data::IteratorContext* ctx, const Drawn& drawn,
                                      std::vector<Tensor>* out_tensors) {
  TF_RETURN_IF_ERROR(CheckRoom(ctx, drawn.records.size()));
  std::vector<tstring> records(drawn.records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    records[i].assign_as_view(drawn.records[i].data, drawn.records[i].size);
  }
  tensorflow::example::Result parsed;
  TF_RETURN_IF_ERROR(tensorflow::example::FastParseExample(spec_->config(), records, {},
                                                           threads_.helpers(), &parsed));
  const auto append = [out_tensors](Tensor* tensor) { out_tensors->push_back(std::move(*tensor)); };
  for (Tensor& tensor : parsed.dense_values) append(&tensor);
  for (size_t i = 0; i < parsed.sparse_values.size(); ++i) {
    append(&parsed.sparse_indices[i]);
    append(&parsed.sparse_values[i]);
    append(&parsed.sparse_shapes[i]);
  }
  for (size_t i = 0; i < parsed.ragged_values.size(); ++i) {
    append(&parsed.ragged_values[i]);
    append(&parsed.ragged_splits[i]);
  }
  return absl::OkStatus();
}

// TensorFlow's parser ends the process where there is none.
absl::Status ExampleBatches::CheckRoom(tensorflow::data::IteratorContext* ctx,
                                       size_t records) const {
  for (const auto& dense : spec_->config().dense) {
    if (dense.variable_length) continue;
    const auto value_bytes = static_cast<size_t>(tensorflow::DataTypeSize(dense.dtype));
    size_t bytes = 0;
    bool there = !__builtin_mul_overflow(records, dense.elements_per_stride, &bytes) &&
                 !__builtin_mul_overflow(bytes, value_bytes, &bytes);
    if (there && bytes < kSurelyThereBytes) continue;
    if (there) {
      tensorflow::Allocator* const allocator = ctx->allocator({});
      void* const memory =
          allocator->AllocateRaw(tensorflow::Allocator::kAllocatorAlignment, bytes);
      there = memory != nullptr;
      if (there) allocator->DeallocateRaw(memory);
    }
    if (!there) {
      return absl::ResourceExhaustedError(
          "tfquiver: parse: feature " + std::string(dense.feature_name) +
          ": no memory for a batch of " + std::to_string(records) + " records with " +
          std::to_string(dense.elements_per_stride) + " values each");
    }
  }
  return absl::OkStatus();
}

}  // namespace tfquiver
