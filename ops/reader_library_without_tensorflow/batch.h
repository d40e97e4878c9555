#ifndef TFQUIVER_OPS_READER_LIBRARY_WITHOUT_TENSORFLOW_BATCH_H_
#define TFQUIVER_OPS_READER_LIBRARY_WITHOUT_TENSORFLOW_BATCH_H_

#include <cstdint>

#include "ops/core/shuffle_pool_and_order/mixture.h"

// The records of one draw. `data[i]` is where record i begins, `offsets[i + 1] - offsets[i]` its
// length, offsets[0] is 0. `contiguous`: they follow one another from data[0] on.
struct TfqBatch {
  int64_t records;
  const char* const* data;
  const int64_t* offsets;
  int32_t contiguous;
  void* owner;  // goes to FreeBatch
};

namespace tfquiver {

// Of what was drawn, which is then good for nothing but its release: blocks of one record become
// the batch's own, small records are copied into one buffer, in which `contiguous` puts all.
TfqBatch MakeBatch(Drawn* drawn, bool contiguous);
void FreeBatch(void* owner);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_READER_LIBRARY_WITHOUT_TENSORFLOW_BATCH_H_
