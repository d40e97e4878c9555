#ifndef TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_BEGUN_H_
#define TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_BEGUN_H_

#include "ops/core/progress_and_checkpoints/checkpoint.h"

namespace tfquiver {

// Leaves of `checkpoint` only what it had begun: every shard of which nothing had been emitted
// counts as done. So each of several readers of a session goes on, alone, with what it had in its
// hands, while nobody has it who would emit it from its beginning.
void KeepBegun(Checkpoint* checkpoint);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_BEGUN_H_
