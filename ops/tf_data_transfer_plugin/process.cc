#include "ops/tf_data_transfer_plugin/process.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "ops/core/element_messages_handshake_sockets/handshake.h"

namespace tfquiver {
namespace {

struct Told {
  std::mutex mu;
  std::vector<std::string> keys;
  std::vector<std::weak_ptr<ElementServer>> servers;
};

Told& Process() {
  static Told* told = new Told;  // outlives every server
  return *told;
}

std::vector<std::shared_ptr<ElementServer>> Servers() {
  std::lock_guard<std::mutex> lock(Process().mu);
  std::vector<std::shared_ptr<ElementServer>> servers;
  for (const auto& one : Process().servers) {
    if (auto server = one.lock()) servers.push_back(std::move(server));
  }
  return servers;
}

std::atomic<uint64_t> elements_sent{0};
std::atomic<uint64_t> bytes_sent{0};
std::atomic<uint64_t> elements_received{0};
std::atomic<uint64_t> bytes_received{0};
std::atomic<uint64_t> fallbacks{0};

}  // namespace

void AddTransportToken(std::string_view token) {
  if (token.empty()) return;
  std::string key = KeyOfToken(token);
  std::lock_guard<std::mutex> lock(Process().mu);
  std::vector<std::string>& keys = Process().keys;
  keys.erase(std::remove(keys.begin(), keys.end(), key), keys.end());
  keys.insert(keys.begin(), std::move(key));
  if (keys.size() > kMostKeys) keys.pop_back();
}

std::vector<std::string> TransportKeys() {
  std::lock_guard<std::mutex> lock(Process().mu);
  return Process().keys;
}

void Remember(const std::shared_ptr<ElementServer>& server) {
  std::lock_guard<std::mutex> lock(Process().mu);
  auto& servers = Process().servers;
  servers.erase(
      std::remove_if(servers.begin(), servers.end(), [](const auto& one) { return one.expired(); }),
      servers.end());
  servers.push_back(server);
}

void CloseTransports() {
  for (const auto& server : Servers()) server->Close();
}

void JoinTransports() {
  for (const auto& server : Servers()) server->Join();
}

void CountSent(uint64_t bytes) {
  ++elements_sent;
  bytes_sent += bytes;
}

void CountReceived(uint64_t bytes) {
  ++elements_received;
  bytes_received += bytes;
}

void CountFallback() { ++fallbacks; }

TransportCounts Counts() {
  return {elements_sent, bytes_sent, elements_received, bytes_received, fallbacks};
}

Crc32cExtend TransportCrc32c() {
  static const Crc32cExtend fastest = FastestCrc32c(&PortableCrc32c);
  return fastest;
}

}  // namespace tfquiver
