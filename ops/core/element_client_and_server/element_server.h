#ifndef TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_ELEMENT_SERVER_H_
#define TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_ELEMENT_SERVER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ops/core/clock.h"
#include "ops/core/element_client_and_server/kept_elements.h"
#include "ops/core/element_messages_handshake_sockets/stream_socket.h"

namespace tfquiver {

// How many a worker serves. Where there are as many, one more takes the place of the one that has
// said nothing, and taken nothing of what it asked for, for the longest time: a trainer connects
// again when it has something to ask, or to read, and is given what it had not received. Those that
// have not been let in yet go first: whoever reaches the port can be many of these.
struct ServerLimits {
  size_t connections = 256;                 // a thread each
  size_t clients = 1024;                    // whose elements are kept
  uint64_t kept_bytes = uint64_t{2} << 30;  // of trainers that are gone, perhaps for good
  // A connection that waits for its trainer for less is not idle.
  Clock::duration idle_after = std::chrono::seconds(10);
  Clock::duration stranger_idle_after = std::chrono::seconds(1);  // it has but to introduce itself
  // Of one that asks for nothing for so long the memory that it does not look at has no pages.
  std::chrono::milliseconds rests_after = std::chrono::seconds(5);
};

// The worker's end: a thread that accepts, one for each connection. Whatever a trainer does wrong
// ends its connection, nothing else.
class ElementServer {
 public:
  // `keys`: of the tokens that are taken (KeyOfToken); none: everybody is let in. `fetch` fills in
  // an element for one of TensorFlow's requests, however long that takes; called by many threads.
  ElementServer(std::vector<std::string> keys, Crc32cExtend crc,
                std::function<void(std::string_view request, Outgoing* element)> fetch,
                ServerLimits limits = {});
  ElementServer(ElementServer&&) = delete;
  ~ElementServer();

  // Listens on that port, 0 for any, of every interface, and under a name for this machine. `id`:
  // of kWorkerIdBytes; trainers that mean another worker are not let in.
  Status Start(int port, std::string id);
  int port() const { return port_; }
  const std::string& id() const { return id_; }
  // An abstract Unix address; empty where there are none.
  const std::string& local_name() const { return local_name_; }

  // From now on no fetch begins, and every connection is at its end. Does not wait. Idempotent.
  void Close();
  // After Close: until the last fetch is over, which somebody else must see to.
  void Join();

 private:
  struct Connection {
    Connection(UniqueFd fd, bool local) : socket(std::move(fd), local) {
      socket.NoteTaken(&waits_since);
    }
    StreamSocket socket;
    std::atomic<bool> done{false};
    bool dropped = false;  // it is at its end, to make room
    std::atomic<bool> let_in{false};
    // When it began to wait for its trainer: for a word, or to take more of an element; max(): an
    // element is being had for it.
    std::atomic<Clock::time_point> waits_since{Clock::now()};
    std::thread thread;
  };
  struct Client {
    KeptElements elements;
    int connections = 0;
    bool leaves = false;  // for good
    Clock::time_point left_at;
  };

  void AcceptAll();
  void Accept(int listener, bool local);
  // Whether there may be one more connection now. Under mu_.
  bool HasPlace();
  // Of connections that have ended, or whose machine is gone, and of trainers that are long gone.
  void Tidy();
  void Serve(Connection* connection);
  bool GreetAndServe(Connection* connection);
  // Until the connection is at its end; whether its client asks for nothing any more.
  bool AnswerAll(Connection* connection, KeptElements* elements);
  bool SendElement(const Outgoing& element, class MemoryPool* pool, StreamSocket* socket);
  std::shared_ptr<Client> Enter(const std::string& client_id);
  void Leave(const std::string& client_id, bool for_good);
  // What is too much of trainers that are gone: those go that have been for the longest time. Under
  // mu_.
  void KeepWithinLimit();

  const std::vector<std::string> keys_;
  const Crc32cExtend crc_;
  const std::function<void(std::string_view, Outgoing*)> fetch_;
  const ServerLimits limits_;
  UniqueFd tcp_;
  UniqueFd local_;
  int port_ = 0;
  std::string id_;
  std::string local_name_;
  WakeFd wake_;
  std::thread accepting_;
  std::atomic<bool> closed_{false};

  std::mutex mu_;
  std::list<Connection> connections_;
  std::map<std::string, std::shared_ptr<Client>> clients_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_ELEMENT_SERVER_H_
