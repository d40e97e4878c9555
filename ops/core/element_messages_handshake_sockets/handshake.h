#ifndef TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_HANDSHAKE_H_
#define TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_HANDSHAKE_H_

#include <string>
#include <string_view>
#include <vector>

#include "ops/core/status.h"

namespace tfquiver {

// How both ends of a connection prove that they hold the same token, without sending it. The worker
// says which tokens it takes, by ids that tell nothing of them; the trainer answers with a proof
// by one that it has; the worker proves the same one. A worker without tokens lets everybody in.
// The trainer also says which worker it means: an address may belong to another one by now, which
// has other elements under the same numbers.

inline constexpr size_t kNonceBytes = 32;
inline constexpr size_t kClientIdBytes = 16;
inline constexpr size_t kWorkerIdBytes = 16;
inline constexpr size_t kMostKeys = 16;
inline constexpr size_t kMostGreetingBytes = 1024;

// From the kernel's randomness.
std::string RandomBytes(size_t count);

// Which worker it is, of kWorkerIdBytes: the one of that address (host:port) and that dispatcher.
// One that is started again is the same one: it has the same tasks, and what a dispatcher tells of
// it is for ever what it said of itself first.
std::string WorkerId(std::string_view worker_address, std::string_view dispatcher_address);

// The first message on a connection, from the worker.
struct Greeting {
  std::string nonce;
  std::vector<std::string> key_ids;
};

// The trainer's answer. `client_id` names what it had asked for over connections before,
// `worker_id` the worker that it was told of.
struct Introduction {
  std::string client_id;
  std::string worker_id;
  std::string nonce;
  std::string key_id;  // empty: it proves nothing
  std::string proof;
};

std::string EncodeGreeting(const Greeting& greeting);
bool DecodeGreeting(std::string_view bytes, Greeting* greeting);
std::string EncodeIntroduction(const Introduction& introduction);
bool DecodeIntroduction(std::string_view bytes, Introduction* introduction);
// Whether it is an introduction as other versions have them: the first one's said no worker.
bool IsOtherVersionsIntroduction(std::string_view bytes);

// A token as it is used here.
std::string KeyOfToken(std::string_view token);
std::string KeyId(std::string_view key);

// The trainer's answer; kUnauthenticated when it has none of the tokens that are taken. *key is the
// one that the worker must prove, empty where it need not.
Status Introduce(const Greeting& greeting, const std::vector<std::string>& keys,
                 std::string_view client_id, std::string_view worker_id, Introduction* introduction,
                 std::string* key);

// What the worker of that id answers: its own proof, empty where it takes everybody;
// kUnauthenticated; kNotFound: another worker is meant.
Status Admit(const Greeting& greeting, const Introduction& introduction,
             const std::vector<std::string>& keys, std::string_view worker_id, std::string* proof);

// The worker's last word: kAdmitted and its proof, or one of the others. Trainers of every version
// go on by gRPC at whatever is not kAdmitted.
inline constexpr char kAdmitted = '+';
inline constexpr char kNotAdmitted = '-';
inline constexpr char kAnotherWorker = '?';

// Whether a worker that says `proof` holds `key`.
bool Proven(const Greeting& greeting, const Introduction& introduction, std::string_view key,
            std::string_view proof);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_ELEMENT_MESSAGES_HANDSHAKE_SOCKETS_HANDSHAKE_H_
