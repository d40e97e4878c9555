#include "ops/core/element_client_and_server/kept_elements.h"

#include <algorithm>

namespace tfquiver {
namespace {

constexpr size_t kMostKept = 64;  // of those that ask ahead; ours do not

}  // namespace

std::shared_ptr<const Outgoing> KeptElements::Answer(const Ask& ask, const Fetch& fetch) {
  std::lock_guard<std::mutex> lock(mu_);
  // A trainer that this process does not know was served by the one before it.
  if (next_ == 0) next_ = ask.number;
  while (!kept_.empty() && kept_.front()->head.number <= ask.received) kept_.pop_front();
  for (const auto& element : kept_) {
    if (element->head.number == ask.number) return element;
  }
  if (ask.number != next_ || kept_.size() >= kMostKept) return nullptr;
  auto element = std::make_shared<Outgoing>();
  if (!fetch(ask.request, element.get())) return nullptr;
  element->head.number = next_++;
  element->LayOut();
  kept_.push_back(element);
  return element;
}

bool KeptElements::asked() const {
  std::lock_guard<std::mutex> lock(mu_);
  return next_ != 0;
}

bool KeptElements::owed() const {
  std::lock_guard<std::mutex> lock(mu_);
  return std::any_of(kept_.begin(), kept_.end(), [](const auto& element) {
    return !element->head.end_of_sequence && !element->head.skip;
  });
}

uint64_t KeptElements::bytes() const {
  std::lock_guard<std::mutex> lock(mu_);
  uint64_t bytes = 0;
  for (const auto& element : kept_) bytes += element->head.payload_bytes;
  return bytes;
}

}  // namespace tfquiver
