#include "ops/core/element_client_and_server/element_server.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "ops/core/element_client_and_server/shared_memory.h"
#include "ops/core/element_messages_handshake_sockets/handshake.h"

namespace tfquiver {
namespace {

using std::chrono::seconds;

constexpr size_t kMostSharedBytes = size_t{1} << 30;  // of one connection
constexpr size_t kLeastShared = 4096;  // smaller ones are copied through the socket sooner
constexpr auto kGreetingTime = seconds(10);
constexpr auto kLastWordTime = seconds(1);
constexpr auto kTidyEvery = seconds(5);
// A trainer that was cut off finds what it had asked for; one that was killed never asks.
constexpr auto kKeptFor = std::chrono::minutes(10);

}  // namespace

ElementServer::ElementServer(std::vector<std::string> keys, Crc32cExtend crc,
                             std::function<void(std::string_view, Outgoing*)> fetch,
                             ServerLimits limits)
    : keys_(std::move(keys)), crc_(crc), fetch_(std::move(fetch)), limits_(limits) {}

ElementServer::~ElementServer() {
  Close();
  Join();
}

Status ElementServer::Start(int port, std::string id) {
  id_ = std::move(id);
  tcp_ = StreamSocket::ListenTcp(port, &port_);
  if (!tcp_.valid()) {
    return Status(Code::kUnavailable, "the element transport cannot listen on port " +
                                          std::to_string(port) + ": " + std::strerror(errno));
  }
  std::string name("tfquiver-elements-");
  for (const char byte : RandomBytes(16)) {
    constexpr char kDigits[] = "0123456789abcdef";
    name.push_back(kDigits[static_cast<unsigned char>(byte) >> 4]);
    name.push_back(kDigits[byte & 15]);
  }
  local_ = StreamSocket::ListenLocal(name);
  if (local_.valid()) local_name_ = name;
  accepting_ = std::thread([this] { AcceptAll(); });
  return Status();
}

void ElementServer::Close() {
  closed_ = true;
  wake_.Signal();
  std::lock_guard<std::mutex> lock(mu_);
  for (Connection& connection : connections_) connection.socket.ShutDown();
}

void ElementServer::Join() {
  if (accepting_.joinable()) accepting_.join();
  // Nobody adds any more.
  for (Connection& connection : connections_) {
    if (connection.thread.joinable()) connection.thread.join();
  }
}

void ElementServer::AcceptAll() {
  while (!closed_) {
    pollfd waiting[] = {
        {tcp_.get(), POLLIN, 0}, {local_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    const int ready = ::poll(
        waiting, 3, std::chrono::duration_cast<std::chrono::milliseconds>(kTidyEvery).count());
    if (closed_) return;
    if (ready > 0) {
      for (const pollfd& one : waiting) {
        if (one.revents & POLLIN) Accept(one.fd, one.fd == local_.get());
      }
    }
    Tidy();
  }
}

void ElementServer::Accept(int listener, bool local) {
  UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd.valid()) {
    // Out of descriptors: connections that end give theirs back.
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      ::poll(nullptr, 0, 100);
    }
    return;
  }
  StreamSocket::Configure(fd.get(), local);
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_ || !HasPlace()) return;
  Connection& connection = connections_.emplace_back(std::move(fd), local);
  try {
    connection.thread = std::thread([this, &connection] { Serve(&connection); });
  } catch (const std::system_error&) {
    connections_.pop_back();  // there is no thread to spare: it comes again
  }
}

bool ElementServer::HasPlace() {
  size_t taken = 0;
  const Clock::time_point now = Clock::now();
  Connection* idlest = nullptr;
  std::pair<bool, Clock::time_point> least;
  for (Connection& connection : connections_) {
    if (connection.done || connection.dropped) continue;
    ++taken;
    const std::pair idle(connection.let_in.load(), connection.waits_since.load());
    if (idle.second > now - (idle.first ? limits_.idle_after : limits_.stranger_idle_after)) {
      continue;
    }
    if (idlest == nullptr || idle < least) {
      idlest = &connection;
      least = idle;
    }
  }
  // Threads of those that were dropped end by themselves, perhaps only after an element.
  if (connections_.size() >= 2 * limits_.connections) return false;
  if (taken < limits_.connections) return true;
  if (idlest == nullptr) return false;
  idlest->dropped = true;
  idlest->socket.ShutDown();
  return true;
}

void ElementServer::Tidy() {
  std::lock_guard<std::mutex> lock(mu_);
  for (auto it = connections_.begin(); it != connections_.end();) {
    if (!it->done) {
      // Its thread may be sending: the kernel would wait for a quarter of an hour.
      if (!it->dropped && it->socket.PeerIsGone()) {
        it->dropped = true;
        it->socket.ShutDown();
      }
      ++it;
      continue;
    }
    it->thread.join();
    it = connections_.erase(it);
  }
  const auto now = Clock::now();
  for (auto it = clients_.begin(); it != clients_.end();) {
    const Client& client = *it->second;
    it = client.connections == 0 && now - client.left_at > kKeptFor ? clients_.erase(it)
                                                                    : std::next(it);
  }
}

void ElementServer::Serve(Connection* connection) {
  GreetAndServe(connection);
  connection->socket.ShutDown();
  connection->done = true;
}

bool ElementServer::GreetAndServe(Connection* connection) {
  StreamSocket* const socket = &connection->socket;
  Greeting greeting{RandomBytes(kNonceBytes), {}};
  for (const std::string& key : keys_) greeting.key_ids.push_back(KeyId(key));
  std::string message;
  Introduction introduction;
  if (!socket->Send(Framed(EncodeGreeting(greeting), crc_)) ||
      !socket->ReceiveMessageBefore(Clock::now() + kGreetingTime, kMostGreetingBytes, crc_,
                                    &message)) {
    return false;
  }
  if (!DecodeIntroduction(message, &introduction)) {
    if (IsOtherVersionsIntroduction(message)) {
      socket->Send(Framed(std::string(1, kNotAdmitted), crc_));
    }
    return false;
  }
  std::string proof;
  const Code code = Admit(greeting, introduction, keys_, id_, &proof).code();
  const char answer = code == Code::kOk         ? kAdmitted
                      : code == Code::kNotFound ? kAnotherWorker
                                                : kNotAdmitted;
  connection->let_in = answer == kAdmitted;
  if (!socket->Send(Framed(answer + proof, crc_)) || answer != kAdmitted) return false;
  const std::shared_ptr<Client> client = Enter(introduction.client_id);
  if (client == nullptr) return false;
  Leave(introduction.client_id, AnswerAll(connection, &client->elements));
  return true;
}

bool ElementServer::AnswerAll(Connection* connection, KeptElements* elements) {
  StreamSocket* const socket = &connection->socket;
  MemoryPool pool(kMostSharedBytes);
  const auto fetch = [this](std::string_view request, Outgoing* element) {
    if (closed_) return false;
    fetch_(request, element);
    return true;
  };
  std::string message;
  Ask ask;
  while (!closed_) {
    connection->waits_since = Clock::now();
    if (!socket->Readable(limits_.rests_after)) pool.Rest();
    if (!socket->ReceiveMessage(kMostAskBytes, crc_, &message)) return false;
    if (!DecodeAsk(message, &ask)) return IsLeave(message);
    connection->waits_since = Clock::time_point::max();
    for (const uint32_t id : ask.released) {
      if (!pool.Release(id)) return false;
    }
    const std::shared_ptr<const Outgoing> element = elements->Answer(ask, fetch);
    connection->waits_since = Clock::now();
    if (element == nullptr) return false;
    if (SendElement(*element, &pool, socket)) continue;
    // Who leaves need not take what it had asked for; what it has said is still to be read.
    return socket->ReceiveMessageBefore(Clock::now() + kLastWordTime, kMostAskBytes, crc_,
                                        &message) &&
           IsLeave(message);
  }
  return false;
}

bool ElementServer::SendElement(const Outgoing& element, MemoryPool* pool, StreamSocket* socket) {
  Element head = element.head;
  MemoryPool::Taken taken;
  if (socket->local() && head.payload_bytes >= kLeastShared) taken = pool->Take(head.payload_bytes);
  std::vector<iovec> parts;
  std::string scratch;
  if (taken.memory != nullptr) {
    element.CopyTo(taken.memory->data());
    head.place = Element::kShared;
    head.memory = taken.id;
    head.memory_bytes = taken.is_new ? taken.memory->size() : 0;
  } else if (head.payload_bytes > 0) {
    head.place = Element::kBehind;
    parts = element.Parts(crc_, &scratch, &head.payload_crc);
  }
  std::string message = Framed(EncodeElement(head), crc_);
  parts.insert(parts.begin(), iovec{message.data(), message.size()});
  return socket->Send(std::move(parts), taken.is_new ? taken.memory->fd() : -1);
}

std::shared_ptr<ElementServer::Client> ElementServer::Enter(const std::string& client_id) {
  std::lock_guard<std::mutex> lock(mu_);
  auto found = clients_.find(client_id);
  if (found == clients_.end()) {
    if (clients_.size() >= limits_.clients) {
      // First those that would lose nothing, of these who has been gone for the longest time.
      auto victim = clients_.end();
      std::pair<bool, Clock::time_point> least;
      for (auto it = clients_.begin(); it != clients_.end(); ++it) {
        if (it->second->connections > 0) continue;
        const std::pair loss(it->second->elements.owed(), it->second->left_at);
        if (victim == clients_.end() || loss < least) {
          victim = it;
          least = loss;
        }
      }
      if (victim == clients_.end()) return nullptr;
      clients_.erase(victim);
    }
    found = clients_.emplace(client_id, std::make_shared<Client>()).first;
  }
  ++found->second->connections;
  return found->second;
}

void ElementServer::Leave(const std::string& client_id, bool for_good) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto found = clients_.find(client_id);
  if (found == clients_.end()) return;
  Client& client = *found->second;
  client.left_at = Clock::now();
  client.leaves |= for_good;
  // Nobody else is at what it has asked then, which is waited for.
  if (--client.connections == 0 && (client.leaves || !client.elements.asked())) {
    clients_.erase(found);
  }
  KeepWithinLimit();
}

void ElementServer::KeepWithinLimit() {
  while (true) {
    uint64_t bytes = 0;
    auto victim = clients_.end();
    for (auto it = clients_.begin(); it != clients_.end(); ++it) {
      if (it->second->connections > 0) continue;
      const uint64_t its = it->second->elements.bytes();
      bytes += its;
      if (its > 0 && (victim == clients_.end() || it->second->left_at < victim->second->left_at)) {
        victim = it;
      }
    }
    if (bytes <= limits_.kept_bytes) return;
    clients_.erase(victim);
  }
}

}  // namespace tfquiver
