#include "ops/reader_library_without_tensorflow/named_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace tfquiver {
namespace {

constexpr size_t kNamesAPart = 1024;
// Whoever else looks has more patience, and says what hangs.
constexpr std::chrono::seconds kLongest{10};

// Absolute, without `.` and `//`; empty: it is none of the usual.
std::string Whole(std::string_view name, std::string_view directory) {
  if (name.empty() || name.front() == '~' || name.find_first_of("*?[") != std::string_view::npos ||
      name.find("://") != std::string_view::npos) {
    return {};
  }
  std::string whole;
  whole.reserve(directory.size() + name.size() + 2);
  if (name.front() != '/' && directory != "/") whole = directory;
  for (size_t at = 0, end = 0; end != std::string_view::npos; at = end + 1) {
    end = name.find('/', at);
    const std::string_view part = name.substr(at, end == std::string_view::npos ? end : end - at);
    const bool last = end == std::string_view::npos;
    if (part == ".." || (last && (part.empty() || part == "."))) return {};
    if (!part.empty() && part != ".") whole.append("/").append(part);
  }
  return whole;
}

}  // namespace

bool LookAtNamed(std::string_view names, size_t count, std::string_view directory, bool in_order,
                 FilesFound* found) {
  std::vector<std::string> whole;
  whole.reserve(count);
  for (size_t at = 0; at < names.size();) {
    const size_t end = names.find('\0', at);
    if (end == std::string_view::npos || whole.size() == count) return false;
    whole.push_back(Whole(names.substr(at, end - at), directory));
    if (whole.back().empty()) return false;
    at = end + 1;
  }
  if (whole.size() != count) return false;
  const bool ascend = std::adjacent_find(whole.begin(), whole.end(),
                                         std::greater_equal<std::string>()) == whole.end();
  if (in_order && !ascend) return false;
  if (!ascend) {
    std::sort(whole.begin(), whole.end());
    whole.erase(std::unique(whole.begin(), whole.end()), whole.end());
  }
  const auto until = std::chrono::steady_clock::now() + kLongest;
  std::vector<FilesFound> looked((whole.size() + kNamesAPart - 1) / kNamesAPart);
  const bool is_sound = ForEach(looked.size(), [&](size_t part) {
    const size_t last = std::min((part + 1) * kNamesAPart, whole.size());
    for (size_t number = part * kNamesAPart; number < last; ++number) {
      struct stat status{};
      if (stat(whole[number].c_str(), &status) != 0 || !S_ISREG(status.st_mode) ||
          !looked[part].AddNumbers(status)) {
        return false;
      }
      looked[part].names.append(whole[number]).push_back('\0');
    }
    return std::chrono::steady_clock::now() < until;
  });
  if (!is_sound) return false;
  for (const FilesFound& one : looked) found->Append(one);
  return true;
}

}  // namespace tfquiver
