// What a compiler of 2022 takes from the C++ library of 2022 (GLIBCXX_3.4.30), so that a released
// op library loads where the C++ library is older than the compiler: RHEL 9, Amazon Linux 2023.
// Seen by this library alone (exports.lds).

#include <pthread.h>

#include <condition_variable>
#include <mutex>

#if _GLIBCXX_RELEASE >= 12
namespace std {

void condition_variable::wait(unique_lock<mutex>& lock) {
  pthread_cond_wait(native_handle(), lock.mutex()->native_handle());
}

}  // namespace std
#endif
