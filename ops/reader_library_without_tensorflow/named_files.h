#ifndef TFQUIVER_OPS_READER_LIBRARY_WITHOUT_TENSORFLOW_NAMED_FILES_H_
#define TFQUIVER_OPS_READER_LIBRARY_WITHOUT_TENSORFLOW_NAMED_FILES_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "ops/reader_library_without_tensorflow/files_under.h"

namespace tfquiver {

// The regular files that have these names, each once, sorted by name: looked at without Python, as
// `FilesUnder` does, and as that one for the usual only. False: somebody else has to look, also
// where it takes long, and what was found is nothing. Blocks on the disk.
//
// `names`: `count` of them, each with a zero behind it. `directory`: absolute; of those that are
// not. `in_order`: they are to be sorted already, each once.
bool LookAtNamed(std::string_view names, size_t count, std::string_view directory, bool in_order,
                 FilesFound* found);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_READER_LIBRARY_WITHOUT_TENSORFLOW_NAMED_FILES_H_
