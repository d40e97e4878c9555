#include "ops/tf/quiver_dataset_op/element.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "ops/tf/shared_strings.h"
#include "ops/tf/tensor_parts.h"

namespace tfquiver {
namespace {

using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::tstring;
using tensorflow::data::IteratorContext;

TensorShape Shape(const Options& options, size_t size) {
  if (options.batch_size == 0) return TensorShape({});
  return TensorShape({static_cast<int64_t>(size)});
}

// The record's blob, if it has one, is gone after this.
void MoveOut(const Record& record, tstring* to) {
  if (record.blob == nullptr) {
    if (record.owner == nullptr || record.size < kLeastSharedBytes) {
      to->assign(record.data, record.size);
    } else {
      SharedTstrings::Assign(record.data, record.size, record.owner, to);
    }
    return;
  }
  *to = std::move(*static_cast<tstring*>(record.blob));
  TstringBlobs()->Delete(record.blob);
}

Tensor Strings(IteratorContext* ctx, const Options& options, const Drawn& drawn) {
  Tensor tensor(ctx->allocator({}), tensorflow::DT_STRING, Shape(options, drawn.records.size()));
  tstring* strings = tensor.flat<tstring>().data();
  for (const Record& record : drawn.records) MoveOut(record, strings++);
  return tensor;
}

Tensor Positions(IteratorContext* ctx, const Options& options, const Drawn& drawn) {
  Tensor tensor(ctx->allocator({}), tensorflow::DT_INT64, Shape(options, drawn.positions.size()));
  std::copy(drawn.positions.begin(), drawn.positions.end(), tensor.flat<int64_t>().data());
  return tensor;
}

Tensor Tags(IteratorContext* ctx, const Options& options, const Drawn& drawn) {
  Tensor tensor(ctx->allocator({}), tensorflow::DT_INT64, Shape(options, drawn.records.size()));
  int64_t* tags = tensor.flat<int64_t>().data();
  for (const Record& record : drawn.records) *tags++ = static_cast<int64_t>(record.tag);
  return tensor;
}

}  // namespace

absl::Status EmitElement(IteratorContext* ctx, const Options& options,
                         const std::string& session_id, const Drawn& drawn, BatchParser* parser,
                         std::vector<Tensor>* out_tensors) {
  if (options.with_position) out_tensors->push_back(Positions(ctx, options, drawn));
  if (parser == nullptr) {
    out_tensors->push_back(Strings(ctx, options, drawn));
  } else {
    const absl::Status parsed = parser->Parse(ctx, drawn, out_tensors);
    DeleteBlobs(drawn);
    if (!parsed.ok()) {
      out_tensors->clear();
      return parsed;
    }
  }
  if (!options.tagged) return absl::OkStatus();
  out_tensors->push_back(Tags(ctx, options, drawn));
  Tensor session(ctx->allocator({}), tensorflow::DT_STRING, TensorShape({}));
  session.scalar<tstring>()() = session_id;
  out_tensors->push_back(std::move(session));
  return absl::OkStatus();
}

void DeleteBlobs(const Drawn& drawn) {
  for (const Record& record : drawn.records) {
    if (record.blob != nullptr) TstringBlobs()->Delete(record.blob);
  }
}

}  // namespace tfquiver
