// The C interface that Python uses through ctypes. Nothing else leaves this library but its
// registrations.

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "ops/core/delivered_records/delivery_stats.h"
#include "ops/core/told_by_python/process.h"
#include "ops/core/told_by_python/waits.h"

#define TFQUIVER_EXPORT extern "C" __attribute__((visibility("default")))

using tfquiver::Process;

TFQUIVER_EXPORT void tfq_set_kept_endpoint(const char* name, const char* socket_path, int kept) {
  Process::Get().SetEndpoint(name, socket_path, kept);
}

TFQUIVER_EXPORT void tfq_set_epoch(const char* session_key, int64_t epoch) {
  Process::Get().SetEpoch(session_key, epoch);
}

TFQUIVER_EXPORT void tfq_set_label(const char* label) { Process::Get().SetLabel(label); }

TFQUIVER_EXPORT void tfq_set_restoring(int restoring) {
  Process::Get().SetRestoring(restoring != 0);
}

TFQUIVER_EXPORT void tfq_stop_all() { Process::Get().StopAll(); }

TFQUIVER_EXPORT void tfq_resume_all() { Process::Get().ResumeAll(); }

// A thread of C++, since what this process waits for may hold Python's lock.
TFQUIVER_EXPORT void tfq_leave_after(int milliseconds) {
  std::thread([milliseconds] {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    _exit(0);
  }).detach();
}

TFQUIVER_EXPORT void tfq_delivery_stats(uint64_t counters[5]) {
  const tfquiver::DeliveryStats& stats = tfquiver::DeliveryStats::Get();
  counters[0] = stats.epochs;
  counters[1] = stats.delivered;
  counters[2] = stats.duplicates;
  counters[3] = stats.mopped_up;
  counters[4] = stats.takeovers;
}

TFQUIVER_EXPORT void tfq_waiting(const char* name, int64_t milliseconds, uint64_t found[2]) {
  const tfquiver::Waits::Longest longest =
      tfquiver::Waits::Get().For(name, std::chrono::milliseconds(milliseconds));
  found[0] = longest.iterators;
  found[1] = static_cast<uint64_t>(longest.least.count());
}

TFQUIVER_EXPORT const char* tfq_build_info() {
  return "{\"tensorflow\": \"" TFQUIVER_TF_VERSION "\", \"compiler\": \"" __VERSION__ "\"}";
}
