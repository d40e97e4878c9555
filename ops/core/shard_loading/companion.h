#ifndef TFQUIVER_OPS_CORE_SHARD_LOADING_COMPANION_H_
#define TFQUIVER_OPS_CORE_SHARD_LOADING_COMPANION_H_

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace tfquiver {

// A second thread, which does one thing at a time for the one that has it, meanwhile. Starts when
// it is first needed.
class Companion {
 public:
  Companion() = default;
  ~Companion();
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;

  // Followed by Join. False: there is no thread to be had, and nothing was begun.
  bool Begin(std::function<void()> work);
  // Until that is done. Throws what it has thrown.
  void Join();

 private:
  void Run();

  std::mutex mu_;
  std::condition_variable changed_;
  std::function<void()> work_;  // empty: there is none
  bool ends_ = false;
  std::exception_ptr thrown_;
  std::thread thread_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_SHARD_LOADING_COMPANION_H_
