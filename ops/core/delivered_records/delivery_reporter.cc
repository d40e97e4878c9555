#include "ops/core/delivered_records/delivery_reporter.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "ops/core/node_messages_socket_tickets/frame.h"

namespace tfquiver {
namespace {

using std::chrono::milliseconds;

// One frame for what completes in so long, instead of one for each shard.
constexpr milliseconds kGather{20};
constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{2000};
constexpr std::chrono::seconds kMemory{30};

}  // namespace

DeliveryReporter::DeliveryReporter(std::function<std::string()> socket_path, std::string label)
    : socket_path_(std::move(socket_path)), label_(std::move(label)), pause_(kFirstPause) {}

void DeliveryReporter::Report(const std::string& session_id, std::vector<uint32_t> shards) {
  if (session_id.empty() || session_id.size() > kMaxSessionIdBytes || shards.empty()) return;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!pending_.empty() && pending_.back().session_id == session_id) {
      auto& last = pending_.back().shards;
      last.insert(last.end(), shards.begin(), shards.end());
      return;
    }
    pending_.push_back(Delivered{session_id, std::move(shards), {}});
  }
  wake_.Signal();
}

void DeliveryReporter::Turn(Clock::time_point until) {
  bool anything;
  {
    std::lock_guard<std::mutex> lock(mu_);
    anything = !pending_.empty();
  }
  if (anything && !socket_.open()) until = std::min(until, std::max(next_connect_, Clock::now()));
  if (anything && socket_.open()) until = std::min(until, std::max(next_send_, Clock::now()));
  // No event descriptor could be had: nobody can end the wait below.
  if (wake_.get() < 0) until = std::min(until, Clock::now() + kFirstPause);
  const short events = outgoing_.empty() ? POLLIN : POLLIN | POLLOUT;
  Wait(socket_.get(), events, wake_.get(), until);
  wake_.Clear();
  const auto now = Clock::now();
  Receive(now);
  if (now >= next_send_) Send(now);
}

void DeliveryReporter::Finish() {
  const auto now = Clock::now();
  next_connect_ = now;
  Receive(now);
  Send(now);
  // A socket that is closed with frames unread resets the connection, and what was sent might not
  // be read.
  Receive(now);
  socket_.Close();
}

bool DeliveryReporter::Connect(Clock::time_point now) {
  if (socket_.open()) return true;
  if (now < next_connect_) return false;
  const std::string path = socket_path_();
  if (path.empty() || !UnixSocket::Connect(path, &socket_).ok()) {
    Lose(now);
    return false;
  }
  outgoing_.push_back(EncodeHello(Role::kDeliveries, static_cast<uint32_t>(::getpid()), label_));
  return true;
}

// What was told on this connection may not have been passed on: it is to be told again.
void DeliveryReporter::Lose(Clock::time_point now) {
  socket_.Close();
  outgoing_.clear();
  next_connect_ = now + pause_;
  pause_ = std::min(pause_ * 2, kLongestPause);
  std::lock_guard<std::mutex> lock(mu_);
  pending_.insert(pending_.begin(), std::make_move_iterator(told_.begin()),
                  std::make_move_iterator(told_.end()));
  told_.clear();
}

void DeliveryReporter::Receive(Clock::time_point now) {
  while (socket_.open()) {
    UniqueFd fd;
    const UnixSocket::Outcome outcome = socket_.Receive(&buffer_, &fd);
    if (outcome == UnixSocket::Outcome::kAgain) return;
    if (outcome == UnixSocket::Outcome::kLost) {
      Lose(now);
    } else {
      pause_ = kFirstPause;  // it speaks: WELCOME
    }
  }
}

void DeliveryReporter::Send(Clock::time_point now) {
  while (!told_.empty() && now - told_.front().at > kMemory) told_.pop_front();
  std::deque<Delivered> pending;
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (pending_.empty() && outgoing_.empty()) return;
  }
  if (!Connect(now)) return;
  {
    std::lock_guard<std::mutex> lock(mu_);
    pending.swap(pending_);
  }
  next_send_ = now + kGather;
  for (Delivered& delivered : pending) {
    for (std::string& frame : EncodeDelivered(delivered.session_id, delivered.shards)) {
      outgoing_.push_back(std::move(frame));
    }
    delivered.at = now;
    told_.push_back(std::move(delivered));
  }
  while (!outgoing_.empty()) {
    const UnixSocket::Outcome outcome = socket_.Send(outgoing_.front());
    if (outcome == UnixSocket::Outcome::kAgain) return;
    if (outcome == UnixSocket::Outcome::kLost) {
      Lose(now);
      return;
    }
    outgoing_.pop_front();
  }
}

}  // namespace tfquiver
