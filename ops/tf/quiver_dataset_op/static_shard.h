#ifndef TFQUIVER_OPS_TF_QUIVER_DATASET_OP_STATIC_SHARD_H_
#define TFQUIVER_OPS_TF_QUIVER_DATASET_OP_STATIC_SHARD_H_

#include <string_view>

namespace tfquiver {

inline constexpr char kStaticShard[] =
    "tfquiver: shard() (or auto-sharding by tf.distribute, or a static policy of tf.data service) "
    "stands behind tfquiver.dataset: every reader has an order of its own, so every n-th record of "
    "each would repeat some records and lose others. Let readers share an epoch: "
    "tfquiver.distribute(dispatcher, job_name=\"...\") with one name for all of them; or give each "
    "files of its own; or read with order=\"files\", which is the same for all";

// Whether an iterator of this prefix ("Iterator::Root::Prefetch::Shard::Map::Quiver") gives its
// elements to one that takes every n-th: what tf.data makes of shard() and of automatic sharding
// by data, which the source sees in no other way.
inline bool UnderStaticShard(std::string_view prefix) {
  constexpr std::string_view kSeparator = "::";
  constexpr std::string_view kShard = "Shard";
  while (!prefix.empty()) {
    const size_t end = prefix.find(kSeparator);
    const std::string_view name = prefix.substr(0, end);
    if (name.substr(0, name.find('[')) == kShard) return true;
    if (end == std::string_view::npos) return false;
    prefix.remove_prefix(end + kSeparator.size());
  }
  return false;
}

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_QUIVER_DATASET_OP_STATIC_SHARD_H_
