#include "ops/core/record_memory/shard_records.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/core/bytes_checksums_tfrecords/tfrecord.h"
#include "ops/core/record_tag.h"

namespace tfquiver {
namespace {

// Behind every record in a block is a zero: who takes a string that shares its bytes for one of C
// does not run on. Where records share a block, each has its size before it.
constexpr size_t kSizeBytes = sizeof(uint64_t);
constexpr size_t kEndBytes = 1;

}  // namespace

ShardRecords::~ShardRecords() {
  std::vector<BlockPool::Block> retired;
  Discard(&retired);
  for (auto& block : retired) blocks_->Put(std::move(block));
}

void ShardRecords::AppendSmall(const char* data, size_t size) {
  const size_t needed = kSizeBytes + size + kEndBytes;
  if (packed_.empty() || packed_.back().size - used_bytes_.back() < needed) {
    // A block no larger than the shard: there may be many thousand shards of one record here.
    const size_t room = std::min<uint64_t>(BlockPool::kBlockBytes, to_pack_bytes_);
    packed_.push_back(blocks_->Get(std::max(needed, room)));
    used_bytes_.push_back(0);
  }
  char* to = packed_.back().data + used_bytes_.back();
  const uint64_t stored_size = size;
  std::memcpy(to, &stored_size, kSizeBytes);
  if (size > 0) std::memcpy(to + kSizeBytes, data, size);
  to[kSizeBytes + size] = '\0';
  used_bytes_.back() += needed;
  to_pack_bytes_ -= std::min<uint64_t>(to_pack_bytes_, needed);
  left_bytes_ += size + kRecordFramingBytes;
  ++records_;
}

char* ShardRecords::AppendLarge(size_t size) {
  Large large;
  large.size = size;
  if (blobs_ != nullptr && !blobs_->shares()) {
    large.blob = blobs_->New(size, &large.data);
  } else {
    large.block = blocks_->GetAlone(size + kEndBytes);
    large.data = large.block.data;
    large.data[size] = '\0';
  }
  large_.push_back(std::move(large));
  left_bytes_ += size + kRecordFramingBytes;
  ++records_;
  return large_.back().data;
}

void ShardRecords::Order(const std::vector<uint32_t>& order) {
  std::vector<Large> ordered;
  ordered.reserve(large_.size());
  for (uint32_t index : order) ordered.push_back(std::move(large_[index]));
  large_ = std::move(ordered);
}

void ShardRecords::CountSkipped(uint32_t skipped) {
  if (!large_.empty()) {
    // Large records were read whole to check them: the skipped ones are here and go now.
    while (next_large_ < skipped) {
      Large& large = NextLarge();
      if (large.blob != nullptr) blobs_->Delete(large.blob);
      blocks_->Put(std::move(large.block));
    }
  } else {
    records_ += skipped;
  }
  taken_ += skipped;
}

ShardRecords::Large& ShardRecords::NextLarge() {
  Large& large = large_[next_large_++];
  left_bytes_ -= large.size + kRecordFramingBytes;
  return large;
}

Record ShardRecords::Take(std::vector<BlockPool::Block>* retired) {
  uint64_t tag = 0;
  if (!tag_order_.empty()) {
    const uint32_t index = tag_order_[taken_];
    tag = MakeTag(shard_, index, index + 1 == tag_order_.size());
  }
  ++taken_;
  if (!large_.empty()) {
    Large& large = NextLarge();
    if (large.blob != nullptr) return Record{large.blob, nullptr, large.data, large.size, tag};
    blocks_->Share(&large.block);
    retired->push_back(std::move(large.block));
    return Record{nullptr, retired->back().owner.get(), large.data, large.size, tag, true};
  }
  if (at_ == used_bytes_[block_]) {
    ++block_;
    at_ = 0;
  }
  BlockPool::Block& block = packed_[block_];
  if (at_ == 0) blocks_->Share(&block);
  const char* const here = block.data + at_;
  uint64_t size;
  std::memcpy(&size, here, kSizeBytes);
  const Record record{nullptr, block.owner.get(), here + kSizeBytes, static_cast<size_t>(size),
                      tag};
  at_ += kSizeBytes + size + kEndBytes;
  left_bytes_ -= size + kRecordFramingBytes;
  if (at_ == used_bytes_[block_]) {
    retired->push_back(std::move(block));
    block = BlockPool::Block();
  } else {
    // The shard's next turn comes after many other shards': have its record in the cache by then.
    const char* const next = block.data + at_;
    for (size_t line = 0; line < 4; ++line) __builtin_prefetch(next + 64 * line);
  }
  return record;
}

void ShardRecords::Discard(std::vector<BlockPool::Block>* retired) {
  while (next_large_ < large_.size()) {
    Large& large = NextLarge();
    if (large.blob != nullptr) {
      blobs_->Delete(large.blob);
    } else {
      retired->push_back(std::move(large.block));
    }
  }
  for (auto& block : packed_) {
    if (block.data != nullptr) retired->push_back(std::move(block));
  }
  packed_.clear();
  used_bytes_.clear();
  block_ = at_ = 0;
  taken_ = records_;
  left_bytes_ = 0;
}

}  // namespace tfquiver
