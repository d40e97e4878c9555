#include "ops/core/progress_and_checkpoints/begun.h"

namespace tfquiver {

void KeepBegun(Checkpoint* checkpoint) {
  Marks& marks = checkpoint->marks;
  marks.done.assign((marks.shards + 7) / 8, 0xff);
  // Bits of no shard are zero, as everywhere.
  if (marks.shards % 8 != 0) marks.done.back() = static_cast<uint8_t>((1 << marks.shards % 8) - 1);
  for (const auto& [shard, emitted] : marks.partly) {
    marks.done[shard / 8] &= static_cast<uint8_t>(~(1 << shard % 8));
  }
  checkpoint->script = Script{};
}

}  // namespace tfquiver
