#ifndef TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_REWIND_H_
#define TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_REWIND_H_

#include <vector>

#include "ops/core/progress_and_checkpoints/checkpoint.h"
#include "ops/core/progress_and_checkpoints/trail.h"

namespace tfquiver {

// From where it is to where it was before `steps`: those are to come again, before what
// `checkpoint` already says.
void Rewind(const std::vector<Step>& steps, Checkpoint* checkpoint);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_REWIND_H_
