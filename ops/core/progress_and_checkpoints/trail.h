#ifndef TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_TRAIL_H_
#define TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_TRAIL_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tfquiver {

// A record that was drawn: the `index`-th that its shard gave. The shard was the `joined`-th to
// join the pool.
struct Step {
  uint32_t shard = 0;
  uint32_t index = 0;
  uint32_t joined = 0;
};

// The records that were drawn, in order, from the oldest Mark that somebody keeps; no more.
// Thread-safe.
class Trail : public std::enable_shared_from_this<Trail> {
 public:
  // A place between two steps. While it exists, the steps after it are kept.
  class Mark {
   public:
    Mark() = default;
    Mark(const Mark& other) : trail_(other.trail_), at_(other.at_) { Hold(); }
    Mark(Mark&& other) noexcept : trail_(std::move(other.trail_)), at_(other.at_) {}
    Mark& operator=(Mark other) noexcept {
      std::swap(trail_, other.trail_);
      std::swap(at_, other.at_);
      return *this;
    }
    ~Mark();

   private:
    friend class Trail;
    Mark(std::shared_ptr<Trail> trail, uint64_t at) : trail_(std::move(trail)), at_(at) {}
    void Hold() const;

    std::shared_ptr<Trail> trail_;
    uint64_t at_ = 0;
  };

  void Append(const Step& step);
  // After the last step.
  Mark End();
  // The steps after `mark`, which is of this trail.
  std::vector<Step> Since(const Mark& mark) const;
  // How many steps are kept.
  size_t kept() const;

 private:
  void Trim();

  mutable std::mutex mu_;
  uint64_t first_ = 0;  // number of steps_.front()
  std::deque<Step> steps_;
  std::map<uint64_t, uint32_t> marks_;  // place -> how many marks are there
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_CORE_PROGRESS_AND_CHECKPOINTS_TRAIL_H_
