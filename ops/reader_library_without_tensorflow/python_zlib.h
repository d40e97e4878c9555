#ifndef TFQUIVER_OPS_READER_LIBRARY_WITHOUT_TENSORFLOW_PYTHON_ZLIB_H_
#define TFQUIVER_OPS_READER_LIBRARY_WITHOUT_TENSORFLOW_PYTHON_ZLIB_H_

#include <cstdint>

#include "ops/core/progress_and_checkpoints/checkpoint.h"

namespace tfquiver {

// Writes at most `room` bytes to `to` and returns how many there are; negative: it cannot.
using PythonZlib = int64_t (*)(const char* bytes, int64_t size, char* to, int64_t room);

// Before the first use. They outlive all readers.
void SetPythonZlib(PythonZlib deflate, PythonZlib inflate);
// What was set, as the core wants it.
ZlibCodec PythonZlibCodec();

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_READER_LIBRARY_WITHOUT_TENSORFLOW_PYTHON_ZLIB_H_
