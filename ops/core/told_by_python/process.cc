#include "ops/core/told_by_python/process.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <random>
#include <utility>

namespace tfquiver {
namespace {

// Whether both lead to what one process has listened at. What a child was not left of its parent's
// (no socket) says nothing.
bool LeadToOneProcess(int one, int other) {
  ucred here{};
  ucred there{};
  socklen_t size = sizeof(here);
  if (::getsockopt(one, SOL_SOCKET, SO_PEERCRED, &here, &size) != 0) return true;
  size = sizeof(there);
  if (::getsockopt(other, SOL_SOCKET, SO_PEERCRED, &there, &size) != 0) return true;
  return here.pid == there.pid;
}

}  // namespace

Process& Process::Get() {
  static Process* process = new Process;  // outlives every iterator
  return *process;
}

void Process::SetEndpoint(const std::string& name, const std::string& socket_path, int kept) {
  std::lock_guard<std::mutex> lock(mu_);
  endpoints_[name] = Endpoint{socket_path, kept, ::getpid()};
}

const Process::Endpoint* Process::Find(const std::string& name) const {
  auto found = endpoints_.find(name);
  if (found == endpoints_.end()) found = endpoints_.find("");
  return found == endpoints_.end() ? nullptr : &found->second;
}

std::string Process::SocketPath(const std::string& name) const {
  std::lock_guard<std::mutex> lock(mu_);
  const Endpoint* endpoint = Find(name);
  return endpoint == nullptr ? "" : endpoint->socket_path;
}

bool Process::IsKept(const std::string& name) const {
  std::lock_guard<std::mutex> lock(mu_);
  const Endpoint* endpoint = Find(name);
  return endpoint != nullptr && endpoint->kept >= 0;
}

bool Process::IsTold(const std::string& name, const std::string& path, int socket) const {
  std::lock_guard<std::mutex> lock(mu_);  // until then Python does not close what it keeps
  const Endpoint* endpoint = Find(name);
  if (endpoint == nullptr || endpoint->kept < 0) return true;
  if (endpoint->socket_path != path) return false;  // it has moved meanwhile
  if (endpoint->set_in != ::getpid()) return true;  // its number may be another's by now
  pollfd kept{endpoint->kept, 0, 0};
  if (::poll(&kept, 1, 0) < 0 || (kept.revents & (POLLHUP | POLLERR)) != 0) return false;
  return LeadToOneProcess(endpoint->kept, socket);
}

void Process::SetLabel(const std::string& label) {
  std::lock_guard<std::mutex> lock(mu_);
  label_ = label;
}

std::string Process::label() const {
  std::lock_guard<std::mutex> lock(mu_);
  return label_;
}

void Process::SetEpoch(const std::string& session_key, int64_t epoch) {
  std::lock_guard<std::mutex> lock(mu_);
  epochs_[session_key] = epoch;
}

int64_t Process::EpochOf(const std::string& session_key, bool taken) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto found = epochs_.find(session_key);
  if (found == epochs_.end()) return -1;
  const int64_t epoch = found->second;
  if (taken) epochs_.erase(found);
  return epoch;
}

void Process::SetRestoring(bool restoring) {
  std::lock_guard<std::mutex> lock(mu_);
  restoring_ = restoring;
}

bool Process::restoring() const {
  std::lock_guard<std::mutex> lock(mu_);
  return restoring_;
}

void Process::StopAll() {
  std::lock_guard<std::mutex> lock(mu_);
  stopped_ = true;
  for (OnStop* on_stop : on_stop_) on_stop->stop_();
}

void Process::ResumeAll() {
  std::lock_guard<std::mutex> lock(mu_);
  stopped_ = false;
}

Process::OnStop::OnStop(std::function<void()> stop) : stop_(std::move(stop)) {
  Process& process = Process::Get();
  std::lock_guard<std::mutex> lock(process.mu_);
  process.on_stop_.insert(this);
  if (process.stopped_) stop_();
}

Process::OnStop::~OnStop() {
  Process& process = Process::Get();
  std::lock_guard<std::mutex> lock(process.mu_);
  process.on_stop_.erase(this);
}

std::string UniqueId() {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string id;
  for (int word = 0; word < 2; ++word) {
    uint64_t bits = RandomSeed();
    for (int digit = 0; digit < 16; ++digit, bits >>= 4) id += kHex[bits & 15];
  }
  return id;
}

uint64_t RandomSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace tfquiver
