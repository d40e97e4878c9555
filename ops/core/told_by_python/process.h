#ifndef TFQUIVER_OPS_CORE_TOLD_BY_PYTHON_PROCESS_H_
#define TFQUIVER_OPS_CORE_TOLD_BY_PYTHON_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace tfquiver {

// What Python has told this process: names of endpoints, who this process is, and whether to stop.
// One per process (Process::Get), because graphs may not carry local paths. Thread-safe.
class Process {
 public:
  static Process& Get();

  // `name` "" is the default, used for names that nobody has set. `kept`: a connection to the node
  // there, which Python has told what it must know of this process (how stores are reached); it
  // stays open until the next call for this name has returned. -1: whatever node is there will do.
  void SetEndpoint(const std::string& name, const std::string& socket_path, int kept = -1);
  // Empty when neither the name nor a default is known.
  std::string SocketPath(const std::string& name) const;
  // Whether Python keeps a connection to the node: when that goes, it finds or starts the next one.
  bool IsKept(const std::string& name) const;
  // Whether `socket`, which was connected to `path` just now, leads to the node that Python has
  // told: one that was started again in its place knows nothing. No timing is in this: one node at
  // a time has a path, so if the kept connection still is one, `socket` leads to its node. A forked
  // child has none: it takes the node for told, until Python has set its own.
  bool IsTold(const std::string& name, const std::string& path, int socket) const;

  void SetLabel(const std::string& label);
  std::string label() const;

  // The next iterator of the data set with this session key reads that epoch, where its order is
  // one of the epoch's number.
  void SetEpoch(const std::string& session_key, int64_t epoch);
  // What was set; -1: nothing was. `taken`: by that iterator, which begins now.
  int64_t EpochOf(const std::string& session_key, bool taken);

  // While a dispatcher restarts, split providers are told to adopt the session that is open.
  void SetRestoring(bool restoring);
  bool restoring() const;

  // Ends every wait of every iterator, now and until ResumeAll: what a server must do before it
  // stops TensorFlow's worker, which joins threads that may wait in an iterator.
  void StopAll();
  void ResumeAll();

  // Calls `stop` on StopAll (or at once when already stopped) for as long as it lives.
  class OnStop {
   public:
    explicit OnStop(std::function<void()> stop);
    ~OnStop();
    OnStop(const OnStop&) = delete;
    OnStop& operator=(const OnStop&) = delete;

   private:
    friend class Process;
    const std::function<void()> stop_;
  };

 private:
  struct Endpoint {
    std::string socket_path;
    int kept = -1;     // Python's
    pid_t set_in = 0;  // a forked child has not that connection
  };
  // Of the name or the default; null: neither is known.
  const Endpoint* Find(const std::string& name) const;

  mutable std::mutex mu_;
  std::map<std::string, Endpoint> endpoints_;
  std::map<std::string, int64_t> epochs_;
  std::string label_;
  bool restoring_ = false;
  bool stopped_ = false;
  std::set<OnStop*> on_stop_;
};

// 32 hex digits that nobody else has.
std::string UniqueId();
// From the system's source of randomness.
uint64_t RandomSeed();

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_TOLD_BY_PYTHON_PROCESS_H_
