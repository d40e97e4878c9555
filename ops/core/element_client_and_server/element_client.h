#ifndef TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_ELEMENT_CLIENT_H_
#define TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_ELEMENT_CLIENT_H_

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ops/core/clock.h"
#include "ops/core/element_client_and_server/received_memory.h"
#include "ops/core/element_messages_handshake_sockets/host_look_up.h"
#include "ops/core/element_messages_handshake_sockets/messages.h"
#include "ops/core/element_messages_handshake_sockets/stream_socket.h"
#include "ops/core/node_messages_socket_tickets/unix_socket.h"

namespace tfquiver {

// Where a worker's end is, and which it is.
struct ElementPlace {
  std::string local;      // its name on its machine, tried first; empty: it has none
  std::string tcp;        // host:port
  std::string worker_id;  // of kWorkerIdBytes; whoever else is found there is asked for nothing
};

// The trainer's end: what one iterator asks one worker for, one element at a time.
class ElementClient {
 public:
  // `keys`: of this process's tokens. `look_up`: of names; tests have their own.
  ElementClient(ElementPlace place, std::vector<std::string> keys, Crc32cExtend crc,
                HostLookUp::System look_up = {});
  ElementClient(ElementClient&&) = delete;

  // Connects where it is not connected. kUnavailable: it may answer later. kNotFound: nobody
  // listens there, or another worker: the one that is meant is gone. kUnauthenticated; kCancelled.
  Status Connect(Clock::time_point deadline);

  // The next element for one of TensorFlow's requests. *payload is null where it has none. With
  // `question.allow_skip`, which says that nobody waits, the element may be "skip". kUnavailable:
  // the connection was lost; the same question may be asked again, and nothing was lost. Else as
  // Connect. By one thread at a time.
  Status Next(std::string_view request, const Question& question, Element* element,
              PayloadRef* payload);

  // Ends all waits, for good, and tells the worker so, where it can: it keeps nothing for this one
  // then. By any thread.
  void Cancel();

 private:
  Status Dial(Clock::time_point deadline, std::shared_ptr<StreamSocket>* socket);
  Status Greet(StreamSocket* socket, Clock::time_point deadline);
  bool AskFor(std::string request);
  bool SendAsk(uint64_t number, std::string_view request);
  bool Receive(Element* element, PayloadRef* payload);
  bool ReceiveBehind(const Element& element, PayloadRef* payload);
  Status Lost(const char* why);

  const ElementPlace place_;
  const std::vector<std::string> keys_;
  const Crc32cExtend crc_;
  const std::string id_;
  const std::shared_ptr<BufferPool> buffers_ = std::make_shared<BufferPool>();

  HostLookUp look_up_;
  int unanswered_ = 0;  // introductions in a row

  // Of the connection there is. Mappings of an earlier one live as long as their payloads.
  std::map<uint32_t, std::shared_ptr<const Mapping>> mappings_;
  std::shared_ptr<Returned> returned_;
  uint64_t received_ = 0;
  std::deque<std::string> asked_;  // for elements received_ + 1 and on

  std::mutex sending_;  // taken under mu_, if at all, without waiting
  std::mutex mu_;
  std::shared_ptr<StreamSocket> dialled_;  // until it has been greeted
  std::shared_ptr<StreamSocket> socket_;
  bool cancelled_ = false;
  const WakeFd cancel_;  // is signalled then
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_ELEMENT_CLIENT_H_
