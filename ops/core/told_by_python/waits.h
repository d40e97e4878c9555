#ifndef TFQUIVER_OPS_CORE_TOLD_BY_PYTHON_WAITS_H_
#define TFQUIVER_OPS_CORE_TOLD_BY_PYTHON_WAITS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "ops/core/clock.h"

namespace tfquiver {

// For how long iterators of this process have waited for an element, by the name that Python has
// given their pipeline. One per process (Waits::Get). Thread-safe.
class Waits {
 public:
  // One iterator, for as long as it lives. Any number of threads may ask it for elements.
  class Waiter {
   public:
    // `name` "": nobody asks for it.
    Waiter(Waits* waits, const std::string& name);
    ~Waiter();
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

    void Begins();  // somebody asks for an element
    void Has();     // and has one, or is told that there is none

   private:
    friend class Waits;
    Waits* const waits_;
    const std::string name_;
    std::atomic<int> asking_{0};
    std::atomic<Clock::rep> since_{
        0};  // they began to, or one of them had its element, what is later
  };

  struct Longest {
    uint64_t iterators = 0;
    std::chrono::milliseconds least{0};  // that one of these has waited
  };

  static Waits& Get();

  // Of that name: those that have waited for so long.
  Longest For(const std::string& name, std::chrono::milliseconds time) const;

 private:
  mutable std::mutex mu_;
  std::map<std::string, std::set<const Waiter*>> waiters_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_TOLD_BY_PYTHON_WAITS_H_
