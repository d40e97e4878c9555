#ifndef TFQUIVER_OPS_C_MEMORY_BLOBS_H_
#define TFQUIVER_OPS_C_MEMORY_BLOBS_H_

#include "ops/core/shards/shard_records.h"

namespace tfquiver {

// Plain memory: a blob is where its bytes begin.
BlobFactory* MemoryBlobs();

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_C_MEMORY_BLOBS_H_
