#ifndef TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_KEPT_ELEMENTS_H_
#define TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_KEPT_ELEMENTS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>

#include "ops/core/element_client_and_server/outgoing.h"

namespace tfquiver {

// What one trainer has asked for and may not have received: a connection that breaks loses nothing.
// Thread-safe; elements are had one at a time, in order.
class KeptElements {
 public:
  // Fills in an element; false: nothing is given any more.
  using Fetch = std::function<bool(std::string_view request, Outgoing* element)>;

  // The element that is asked for: kept, or fetched, which may take as long as it takes. nullptr:
  // the question is out of order, or nothing is given any more.
  std::shared_ptr<const Outgoing> Answer(const Ask& ask, const Fetch& fetch);
  // Whether anything has been asked. Waits for an Answer that is under way.
  bool asked() const;
  // Whether it keeps more than words that the task has ended, or has nothing just now. Waits, too.
  bool owed() const;
  // That its elements take. Waits, too.
  uint64_t bytes() const;

 private:
  mutable std::mutex mu_;
  uint64_t next_ = 0;  // 0: nothing has been asked yet
  std::deque<std::shared_ptr<const Outgoing>> kept_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_ELEMENT_CLIENT_AND_SERVER_KEPT_ELEMENTS_H_
