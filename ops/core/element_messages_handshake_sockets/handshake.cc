#include "ops/core/element_messages_handshake_sockets/handshake.h"

#include <errno.h>
#include <sys/random.h>

#include <algorithm>

#include "ops/core/bytes_checksums_tfrecords/bytes.h"
#include "ops/core/bytes_checksums_tfrecords/sha256.h"

namespace tfquiver {
namespace {

constexpr Signature kGreeting{"TFQE", 1};
constexpr Signature kIntroduction{"TFQI", 2};
constexpr size_t kKeyIdBytes = 8;

std::string Proof(std::string_view side, const Greeting& greeting, const Introduction& introduction,
                  std::string_view key) {
  std::string text("tfquiver element transport ");
  text.append(side).push_back('\0');
  return HmacSha256(key, text + greeting.nonce + introduction.nonce + introduction.client_id +
                             introduction.worker_id);
}

std::string_view KeyWithId(const std::vector<std::string>& keys, std::string_view id) {
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [id](const std::string& key) { return KeyId(key) == id; });
  return found == keys.end() ? std::string_view() : std::string_view(*found);
}

bool Signed(const Signature& signature, std::string_view* bytes) {
  uint8_t version;
  return GetSignature(signature, bytes, &version) && version == signature.version;
}

}  // namespace

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t got = 0; got < count;) {
    const ssize_t more = ::getrandom(bytes.data() + got, count - got, 0);
    if (more > 0) got += static_cast<size_t>(more);
  }
  return bytes;
}

std::string WorkerId(std::string_view worker_address, std::string_view dispatcher_address) {
  std::string text("tfquiver worker ");
  text.append(worker_address).push_back('\0');
  return Sha256(text.append(dispatcher_address)).substr(0, kWorkerIdBytes);
}

std::string EncodeGreeting(const Greeting& greeting) {
  std::string bytes;
  PutSignature(kGreeting, &bytes);
  bytes.append(greeting.nonce);
  Put(static_cast<uint8_t>(greeting.key_ids.size()), &bytes);
  for (const std::string& id : greeting.key_ids) bytes.append(id);
  return bytes;
}

bool DecodeGreeting(std::string_view bytes, Greeting* greeting) {
  std::string_view nonce;
  uint8_t count;
  if (!Signed(kGreeting, &bytes) || !GetRaw(&bytes, kNonceBytes, &nonce) || !Get(&bytes, &count) ||
      count > kMostKeys || bytes.size() != count * kKeyIdBytes) {
    return false;
  }
  greeting->nonce = nonce;
  greeting->key_ids.clear();
  for (; !bytes.empty(); bytes.remove_prefix(kKeyIdBytes)) {
    greeting->key_ids.emplace_back(bytes.substr(0, kKeyIdBytes));
  }
  return true;
}

std::string EncodeIntroduction(const Introduction& introduction) {
  std::string bytes;
  PutSignature(kIntroduction, &bytes);
  bytes.append(introduction.client_id).append(introduction.worker_id).append(introduction.nonce);
  PutSized<uint8_t>(introduction.key_id, &bytes);
  PutSized<uint8_t>(introduction.proof, &bytes);
  return bytes;
}

bool DecodeIntroduction(std::string_view bytes, Introduction* introduction) {
  std::string_view client_id, worker_id, nonce, key_id, proof;
  if (!Signed(kIntroduction, &bytes) || !GetRaw(&bytes, kClientIdBytes, &client_id) ||
      !GetRaw(&bytes, kWorkerIdBytes, &worker_id) || !GetRaw(&bytes, kNonceBytes, &nonce) ||
      !GetSized<uint8_t>(&bytes, &key_id) || !GetSized<uint8_t>(&bytes, &proof) || !bytes.empty()) {
    return false;
  }
  *introduction = {std::string(client_id), std::string(worker_id), std::string(nonce),
                   std::string(key_id), std::string(proof)};
  return true;
}

bool IsOtherVersionsIntroduction(std::string_view bytes) {
  uint8_t version;
  return GetSignature(kIntroduction, &bytes, &version) && version != kIntroduction.version;
}

std::string KeyOfToken(std::string_view token) { return Sha256(token); }

std::string KeyId(std::string_view key) {
  return HmacSha256(key, "tfquiver element transport id").substr(0, kKeyIdBytes);
}

Status Introduce(const Greeting& greeting, const std::vector<std::string>& keys,
                 std::string_view client_id, std::string_view worker_id, Introduction* introduction,
                 std::string* key) {
  *introduction = {std::string(client_id), std::string(worker_id), RandomBytes(kNonceBytes), "",
                   ""};
  key->clear();
  if (greeting.key_ids.empty()) return Status();
  for (const std::string& id : greeting.key_ids) {
    const std::string_view found = KeyWithId(keys, id);
    if (found.empty()) continue;
    *key = found;
    introduction->key_id = id;
    introduction->proof = Proof("trainer", greeting, *introduction, found);
    return Status();
  }
  return Status(Code::kUnauthenticated,
                keys.empty() ? "the worker takes elements' readers with a token only, and this "
                               "process was given none (auth_token_file=, "
                               "TFQUIVER_AUTH_TOKEN_FILE)"
                             : "the worker takes none of this process's tokens");
}

Status Admit(const Greeting& greeting, const Introduction& introduction,
             const std::vector<std::string>& keys, std::string_view worker_id, std::string* proof) {
  proof->clear();
  const std::string_view key = KeyWithId(keys, introduction.key_id);
  if (!keys.empty() && (key.empty() || !SameSecret(introduction.proof, Proof("trainer", greeting,
                                                                             introduction, key)))) {
    return Status(Code::kUnauthenticated, "no proof of a token that is taken here");
  }
  if (introduction.worker_id != worker_id) {
    return Status(Code::kNotFound, "another worker is meant");
  }
  if (!keys.empty()) *proof = Proof("worker", greeting, introduction, key);
  return Status();
}

bool Proven(const Greeting& greeting, const Introduction& introduction, std::string_view key,
            std::string_view proof) {
  return key.empty() || SameSecret(proof, Proof("worker", greeting, introduction, key));
}

}  // namespace tfquiver
