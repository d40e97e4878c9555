#include "ops/core/reader_and_its_conversation_with_the_node/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tfquiver {

UniqueFd MemoryOf(const std::string& bytes) {
  UniqueFd fd(::memfd_create("tfquiver-done", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return fd;
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (wrote <= 0) return UniqueFd();
    done += static_cast<size_t>(wrote);
  }
  ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return fd;
}

}  // namespace tfquiver
