#include "ops/core/progress_and_checkpoints/rewind.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace tfquiver {

void Rewind(const std::vector<Step>& steps, Checkpoint* checkpoint) {
  if (steps.empty()) return;
  std::map<uint32_t, uint32_t> joined;  // by shard
  std::vector<uint32_t> draws;
  Script& script = checkpoint->script;
  draws.reserve(steps.size() + script.draws.size());
  Marks& marks = checkpoint->marks;
  for (const Step& step : steps) {
    draws.push_back(step.shard);
    if (!joined.emplace(step.shard, step.joined).second) continue;
    // Its first step: so many of its records had been emitted before.
    const auto bit = static_cast<uint8_t>(1u << step.shard % 8);
    marks.done[step.shard / 8] = static_cast<uint8_t>(marks.done[step.shard / 8] & ~bit);
    if (step.index > 0) {
      marks.partly[step.shard] = step.index;
    } else {
      marks.partly.erase(step.shard);
    }
  }
  for (size_t i = 0; i < script.wanted.size(); ++i) {
    const bool known = i < script.joined.size();
    joined.emplace(script.wanted[i], known ? script.joined[i] : static_cast<uint32_t>(i));
  }
  draws.insert(draws.end(), script.draws.begin(), script.draws.end());
  std::vector<uint32_t> wanted;
  for (const auto& [shard, when] : joined) wanted.push_back(shard);
  std::sort(wanted.begin(), wanted.end(),
            [&joined](uint32_t a, uint32_t b) { return joined.at(a) < joined.at(b); });
  script.wanted = std::move(wanted);
  script.joined.clear();
  script.draws = std::move(draws);
}

}  // namespace tfquiver
