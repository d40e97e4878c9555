#include "ops/core/element_client_and_server/element_client.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "ops/core/element_messages_handshake_sockets/handshake.h"

namespace tfquiver {
namespace {

constexpr auto kConnectTime = std::chrono::seconds(5);
constexpr size_t kPieceBytes = 256 << 10;  // received and checked while it is in the cache
constexpr uint64_t kMostMappings = 512;
constexpr int kMostUnanswered = 3;

// allow_skip = false, behind whatever the request says: the last one counts.
constexpr std::string_view kWaitForIt("\x28\x00", 2);

Status Cancelled() { return Status(Code::kCancelled, "the iterator was cancelled"); }

}  // namespace

ElementClient::ElementClient(ElementPlace place, std::vector<std::string> keys, Crc32cExtend crc,
                             HostLookUp::System look_up)
    : place_(std::move(place)),
      keys_(std::move(keys)),
      crc_(crc),
      id_(RandomBytes(kClientIdBytes)),
      look_up_(std::move(look_up)) {}

Status ElementClient::Connect(Clock::time_point deadline) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (cancelled_) return Cancelled();
    if (socket_ != nullptr) return Status();
  }
  std::shared_ptr<StreamSocket> socket;
  if (Status status = Dial(deadline, &socket); !status.ok()) return status;
  const Status greeted = Greet(socket.get(), deadline);
  mappings_.clear();
  returned_ = std::make_shared<Returned>();
  {
    std::lock_guard<std::mutex> lock(mu_);
    dialled_.reset();
    if (cancelled_) return Cancelled();
    if (!greeted.ok()) return greeted;
    socket_ = std::move(socket);
  }
  for (size_t i = 0; i < asked_.size(); ++i) {
    if (!SendAsk(received_ + 1 + i, asked_[i])) return Lost("lost while asking again");
  }
  return Status();
}

Status ElementClient::Dial(Clock::time_point deadline, std::shared_ptr<StreamSocket>* socket) {
  UniqueFd fd;
  bool local = !place_.local.empty();
  if (local) local = StreamSocket::Connect("@" + place_.local, deadline, &fd, &cancel_).ok();
  if (!local) {
    const Status status = StreamSocket::Connect(place_.tcp, deadline, &fd, &cancel_, &look_up_);
    std::lock_guard<std::mutex> lock(mu_);
    if (cancelled_) return Cancelled();
    if (!status.ok()) return status;
  }
  *socket = std::make_shared<StreamSocket>(std::move(fd), local);
  std::lock_guard<std::mutex> lock(mu_);
  dialled_ = *socket;
  return cancelled_ ? Cancelled() : Status();
}

Status ElementClient::Greet(StreamSocket* socket, Clock::time_point deadline) {
  std::string message;
  Greeting greeting;
  Introduction introduction;
  std::string key;
  const std::string where = "the worker's element transport at " + place_.tcp;
  const Status silent(Code::kUnavailable, where + " does not greet");
  if (!socket->ReceiveMessageBefore(deadline, kMostGreetingBytes, crc_, &message) ||
      !DecodeGreeting(message, &greeting)) {
    return silent;
  }
  if (Status status = Introduce(greeting, keys_, id_, place_.worker_id, &introduction, &key);
      !status.ok()) {
    return status;
  }
  if (!socket->Send(Framed(EncodeIntroduction(introduction), crc_)) ||
      !socket->ReceiveMessageBefore(deadline, kMostGreetingBytes, crc_, &message) ||
      message.empty()) {
    if (Clock::now() >= deadline) return silent;  // it is slow, or stopped: it may answer yet
    // As workers of the first version do: there may be one now that was started in its stead.
    return ++unanswered_ < kMostUnanswered
               ? silent
               : Status(Code::kNotFound, where + " hangs up: it is of another version");
  }
  unanswered_ = 0;
  if (message[0] == kAnotherWorker) {
    return Status(Code::kNotFound, where + " is another worker's now");
  }
  if (message[0] != kAdmitted || !Proven(greeting, introduction, key, message.substr(1))) {
    return Status(Code::kUnauthenticated, where + ": tokens do not fit");
  }
  return Status();
}

Status ElementClient::Next(std::string_view request, const Question& question, Element* element,
                           PayloadRef* payload) {
  if (Status status = Connect(Clock::now() + kConnectTime); !status.ok()) return status;
  // One at a time. What is asked for ahead is lost to a trainer that ends before it has looked: as
  // when another one of the same job has been told the end; and to all, when the worker is killed.
  if (asked_.empty()) {
    std::string asked(request);
    if (!question.in_turn) asked.append(kWaitForIt);
    AskFor(std::move(asked));  // what a worker sent before it was gone is still to be received
  }
  std::shared_ptr<StreamSocket> socket;
  {
    std::lock_guard<std::mutex> lock(mu_);
    socket = socket_;
  }
  if (!question.in_turn && question.allow_skip && !socket->Readable()) {
    *element = Element();
    element->skip = true;
    return Status();
  }
  if (!Receive(element, payload)) return Lost("lost");
  ++received_;
  asked_.pop_front();
  return Status();
}

bool ElementClient::AskFor(std::string request) {
  if (!SendAsk(received_ + 1 + asked_.size(), request)) {
    asked_.push_back(std::move(request));
    return false;
  }
  asked_.push_back(std::move(request));
  return true;
}

bool ElementClient::SendAsk(uint64_t number, std::string_view request) {
  Ask ask;
  ask.number = number;
  ask.received = received_;
  ask.released = returned_->Take();
  ask.request = request;
  std::lock_guard<std::mutex> lock(sending_);
  return socket_->Send(Framed(EncodeAsk(ask), crc_));
}

bool ElementClient::Receive(Element* element, PayloadRef* payload) {
  std::string message;
  UniqueFd fd;
  if (!socket_->ReceiveMessage(kMostElementBytes, crc_, &message, &fd)) return false;
  *element = Element();
  payload->reset();
  if (!DecodeElement(message, element) || element->number != received_ + 1) return false;
  if (element->place == Element::kNothing) return true;
  if (element->place == Element::kBehind) return ReceiveBehind(*element, payload);
  std::shared_ptr<const Mapping>& mapping = mappings_[element->memory];
  if (element->memory_bytes > 0) {
    if (mapping != nullptr || mappings_.size() > kMostMappings) return false;
    mapping = Mapping::Map(fd, element->memory_bytes);
  }
  if (mapping == nullptr || element->payload_bytes > mapping->bytes().size()) return false;
  *payload = SharedPayload(mapping, element->payload_bytes, element->memory, returned_);
  return true;
}

bool ElementClient::ReceiveBehind(const Element& element, PayloadRef* payload) {
  char* data;
  PayloadRef taken = buffers_->Take(element.payload_bytes, &data);
  if (taken == nullptr) return false;
  uint32_t crc = 0;
  for (uint64_t at = 0; at < element.payload_bytes;) {
    const size_t size = std::min<uint64_t>(kPieceBytes, element.payload_bytes - at);
    if (!socket_->Receive(data + at, size)) return false;
    crc = crc_(crc, data + at, size);
    at += size;
  }
  if (crc != element.payload_crc) return false;
  *payload = std::move(taken);
  return true;
}

Status ElementClient::Lost(const char* why) {
  std::lock_guard<std::mutex> lock(mu_);
  if (socket_ != nullptr) socket_->ShutDown();
  socket_.reset();
  if (cancelled_) return Cancelled();
  return Status(Code::kUnavailable,
                std::string("the connection to the worker's element transport was ") + why);
}

void ElementClient::Cancel() {
  std::lock_guard<std::mutex> lock(mu_);
  cancelled_ = true;
  cancel_.Signal();
  if (dialled_ != nullptr) dialled_->ShutDown();
  if (socket_ == nullptr) return;
  const std::unique_lock<std::mutex> alone(sending_, std::try_to_lock);
  if (alone.owns_lock()) socket_->SendNow(Framed(EncodeLeave(), crc_));
  socket_->ShutDown();
}

}  // namespace tfquiver
