#ifndef TFQUIVER_OPS_TF_TENSOR_PARTS_H_
#define TFQUIVER_OPS_TF_TENSOR_PARTS_H_

#include "ops/core/bytes_checksums_tfrecords/crc32c.h"
#include "ops/core/progress_and_checkpoints/checkpoint.h"
#include "ops/core/record_memory/shard_records.h"

namespace tfquiver {

// What the core is given by TensorFlow: its checksum, its zlib, its strings.
Crc32cExtend Crc32c();
ZlibCodec Zlib();
// Blobs are tensorflow::tstring objects.
BlobFactory* TstringBlobs();

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_TENSOR_PARTS_H_
