#include "ops/reader_library_without_tensorflow/batch.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace tfquiver {
namespace {

struct Owner {
  std::vector<const char*> data;
  std::vector<int64_t> offsets;
  std::vector<BlockPool::Block> blocks;
  std::unique_ptr<char[]> buffer;
};

}  // namespace

TfqBatch MakeBatch(Drawn* drawn, bool contiguous) {
  auto owner = std::make_unique<Owner>();
  owner->data.reserve(drawn->records.size());
  owner->offsets.reserve(drawn->records.size() + 1);
  owner->offsets.push_back(0);
  size_t copied_bytes = 0;
  bool all_copied = true;
  for (const Record& record : drawn->records) {
    owner->offsets.push_back(owner->offsets.back() + static_cast<int64_t>(record.size));
    const bool copied = contiguous || !record.alone;
    if (copied) copied_bytes += record.size;
    all_copied = all_copied && copied;
  }
  owner->buffer.reset(new char[copied_bytes + 1]);  // an empty record, too, is somewhere
  char* at = owner->buffer.get();
  for (const Record& record : drawn->records) {
    if (!contiguous && record.alone) {
      owner->data.push_back(record.data);
      continue;
    }
    if (record.size > 0) std::memcpy(at, record.data, record.size);
    owner->data.push_back(at);
    at += record.size;
  }
  if (!contiguous) {
    for (BlockPool::Block& block : drawn->retired) {
      if (block.alone) owner->blocks.push_back(std::move(block));
    }
  }
  TfqBatch batch{};
  batch.records = static_cast<int64_t>(drawn->records.size());
  batch.data = owner->data.data();
  batch.offsets = owner->offsets.data();
  batch.contiguous = all_copied ? 1 : 0;
  batch.owner = owner.release();
  return batch;
}

void FreeBatch(void* owner) { delete static_cast<Owner*>(owner); }

}  // namespace tfquiver
