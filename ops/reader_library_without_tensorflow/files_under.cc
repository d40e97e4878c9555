#include "ops/reader_library_without_tensorflow/files_under.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <future>
#include <memory>
#include <thread>

namespace tfquiver {
namespace {

constexpr size_t kMostThreads = 4;
constexpr size_t kFewParts = 4;  // are not worth a thread
constexpr size_t kMostNames = 1024;

struct Descriptor {
  explicit Descriptor(int number) : number(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
  const int number;
};

using Directory = std::unique_ptr<DIR, int (*)(DIR*)>;

// Of a descriptor, which is its own from now on; null: there is none.
Directory Entered(int descriptor) {
  DIR* const opened = descriptor < 0 ? nullptr : fdopendir(descriptor);
  if (opened == nullptr && descriptor >= 0) close(descriptor);
  return {opened, &closedir};
}

// Of a time in nanoseconds that 64 bits hold: in 2262. Python's numbers hold more.
constexpr int64_t kLastSecond = 9'223'372'035;

bool IsMagic(std::string_view part) { return part.find_first_of("*?") != std::string_view::npos; }

bool IsAbsent(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == EACCES;
}

// Bytes of the character that begins at `at`, of what `IsUtf8`.
size_t CharacterBytes(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return end - at;
}

// As Python decodes it: no surrogates, nothing longer than need be.
bool IsUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    if (lead < 0x80) {
      ++at;
      continue;
    }
    const size_t more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC2 || lead > 0xF4 || at + more >= text.size()) return false;
    uint32_t code = lead & (0x3F >> more);
    for (size_t next = at + 1; next <= at + more; ++next) {
      const auto byte = static_cast<unsigned char>(text[next]);
      if ((byte & 0xC0) != 0x80) return false;
      code = code << 6 | (byte & 0x3F);
    }
    const uint32_t least = more == 3 ? 0x10000 : more == 2 ? 0x800 : 0x80;
    if (code < least || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    at += more + 1;
  }
  return true;
}

// Both are UTF-8.
bool Matches(std::string_view name, std::string_view pattern) {
  size_t at = 0, in_pattern = 0;
  size_t star = std::string_view::npos, tried = 0;
  while (at < name.size()) {
    if (in_pattern < pattern.size() && pattern[in_pattern] == '*') {
      star = in_pattern++;
      tried = at;
    } else if (in_pattern < pattern.size() && pattern[in_pattern] == '?') {
      at += CharacterBytes(name, at);
      ++in_pattern;
    } else if (in_pattern < pattern.size() && pattern[in_pattern] == name[at]) {
      ++at;
      ++in_pattern;
    } else if (star != std::string_view::npos) {
      tried += CharacterBytes(name, tried);
      at = tried;
      in_pattern = star + 1;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == std::string_view::npos;
}

void AddWithLength(std::string_view text, std::string* to) {
  const uint64_t size = text.size();
  for (int shift = 0; shift < 64; shift += 8) to->push_back(static_cast<char>(size >> shift));
  to->append(text);
}

}  // namespace

bool ForEach(size_t parts, const std::function<bool(size_t)>& is_sound) {
  std::atomic<size_t> next{0};
  std::atomic<bool> ended{false};
  const auto run = [&] {
    for (size_t part = next++; part < parts && !ended; part = next++) {
      if (!is_sound(part)) ended = true;
    }
  };
  std::vector<std::future<void>> others;
  const size_t threads =
      std::min<size_t>({kMostThreads, std::thread::hardware_concurrency(), parts / kFewParts});
  for (size_t thread = 1; thread < threads; ++thread) {
    others.push_back(std::async(std::launch::async, run));
  }
  run();
  for (std::future<void>& other : others) other.get();
  return !ended;
}

void FilesFound::Append(const FilesFound& other) {
  names += other.names;
  numbers.insert(numbers.end(), other.numbers.begin(), other.numbers.end());
}

bool FilesFound::AddNumbers(const struct stat& status) {
  if (status.st_mtim.tv_sec > kLastSecond || status.st_mtim.tv_sec < -kLastSecond) return false;
  numbers.push_back({static_cast<uint64_t>(status.st_size),
                     status.st_mtim.tv_sec * int64_t{1'000'000'000} + status.st_mtim.tv_nsec,
                     static_cast<uint64_t>(status.st_ino)});
  return true;
}

std::string FilesFound::Listing(std::string_view prefix) const {
  std::string listing, uri, generation;
  listing.reserve(names.size() + numbers.size() * (prefix.size() + 72));
  size_t at = 0;
  for (const FileNumbers& file : numbers) {
    const size_t end = names.find('\0', at);
    uri.assign(prefix).append(names, at, end - at);
    at = end + 1;
    const std::string size = std::to_string(file.size_bytes);
    generation.assign(std::to_string(file.modified_ns)).append("-").append(size).append("-");
    generation.append(std::to_string(file.inode));
    AddWithLength(uri, &listing);
    AddWithLength(size, &listing);
    AddWithLength(generation, &listing);
  }
  return listing;
}

bool FilesUnder::Look(const std::string& root, std::string_view pattern,
                      std::string_view but_suffix) {
  found_ = FilesFound();
  parts_.clear();
  but_suffix_ = but_suffix;
  for (size_t at = 0, end = 0; end != std::string_view::npos; at = end + 1) {
    end = pattern.find('/', at);
    parts_.emplace_back(pattern.substr(at, end == std::string_view::npos ? end : end - at));
    const std::string& part = parts_.back();
    if (part.empty() || part == ".." || part.find("**") != std::string::npos || !IsUtf8(part)) {
      return false;
    }
  }
  const Descriptor opened(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::vector<std::string> directories;
  if (opened.number < 0 || !AddDirectories(opened.number, 0, "", &directories)) return false;
  std::vector<FilesFound> found(directories.size());
  const bool is_sound = ForEach(directories.size(), [&](size_t number) {
    return LookIn(opened.number, directories[number], &found[number]);
  });
  if (!is_sound) return false;
  for (const FilesFound& one : found) found_.Append(one);
  return true;
}

bool FilesUnder::AddDirectories(int directory, size_t level, const std::string& above,
                                std::vector<std::string>* found) const {
  if (level + 1 == parts_.size()) {
    found->push_back(above);
    return true;
  }
  std::vector<Name> names;
  if (!IsMagic(parts_[level])) {
    names.push_back({parts_[level], DT_UNKNOWN});
  } else {
    const Directory opened = Entered(Open(directory, "."));
    if (opened == nullptr || !NamesIn(opened.get(), parts_[level], &names)) return false;
  }
  for (Name& name : names) name.text += '/';  // as the names of all that is in them will be sorted
  std::sort(names.begin(), names.end(),
            [](const Name& a, const Name& b) { return a.text < b.text; });
  for (const Name& name : names) {
    if (every_ && name.type == DT_UNKNOWN) return false;
    const bool may_be_link = !every_ && name.type == DT_LNK;
    if (name.type != DT_DIR && name.type != DT_UNKNOWN && !may_be_link) continue;
    if (level + 2 == parts_.size()) {  // whether it is one is seen when it is looked into
      found->push_back(above + name.text);
      continue;
    }
    const Descriptor entered(Open(directory, name.text.substr(0, name.text.size() - 1)));
    if (entered.number < 0 && !(IsAbsent(errno) && !every_)) return false;
    if (entered.number >= 0 &&
        !AddDirectories(entered.number, level + 1, above + name.text, found)) {
      return false;
    }
  }
  return true;
}

bool FilesUnder::LookIn(int root, const std::string& directory, FilesFound* found) const {
  // Behind a `/` a link would be followed.
  const int entered =
      Open(root, directory.empty() ? "." : directory.substr(0, directory.size() - 1));
  if (entered < 0) return !every_ && IsAbsent(errno);
  const Directory opened = Entered(entered);
  if (opened == nullptr) return false;
  std::vector<Name> names;
  if (!IsMagic(parts_.back())) {
    names.push_back({parts_.back(), DT_UNKNOWN});
  } else if (!NamesIn(opened.get(), parts_.back(), &names)) {
    return false;
  }
  std::sort(names.begin(), names.end(),
            [](const Name& a, const Name& b) { return a.text < b.text; });
  const size_t parts = (names.size() + kMostNames - 1) / kMostNames;
  std::vector<FilesFound> taken(parts);
  const bool is_sound = ForEach(parts, [&](size_t part) {
    const Name* const first = names.data() + part * kMostNames;
    const Name* const last = names.data() + std::min((part + 1) * kMostNames, names.size());
    return Take(entered, directory, first, last, &taken[part]);
  });
  for (const FilesFound& one : taken) found->Append(one);
  return is_sound;
}

bool FilesUnder::Take(int directory, const std::string& above, const Name* first, const Name* last,
                      FilesFound* found) const {
  for (const Name* name = first; name != last; ++name) {
    const bool may_be_link = !every_ && name->type == DT_LNK;
    if (name->type != DT_REG && name->type != DT_UNKNOWN && !may_be_link) continue;
    if (!IsMeant(name->text)) continue;
    struct stat status{};
    const char* const text = name->text.c_str();
    if (fstatat(directory, text, &status, every_ ? AT_SYMLINK_NOFOLLOW : 0) != 0) {
      // A name that is no pattern need not be there. What is there and leads to nothing is told.
      struct stat link{};
      if (IsMagic(parts_.back()) || fstatat(directory, text, &link, AT_SYMLINK_NOFOLLOW) == 0 ||
          !IsAbsent(errno)) {
        return false;
      }
      continue;
    }
    if (!S_ISREG(status.st_mode)) continue;
    if (!found->AddNumbers(status)) return false;
    found->names.append(above).append(name->text).push_back('\0');
  }
  return true;
}

bool FilesUnder::NamesIn(DIR* directory, const std::string& part, std::vector<Name>* found) const {
  const bool with_hidden = every_ || part.front() == '.';
  while (true) {
    errno = 0;
    const dirent* const entry = readdir(directory);
    if (entry == nullptr) return errno == 0;
    const std::string_view name = entry->d_name;
    if (name == "." || name == ".." || (name.front() == '.' && !with_hidden)) continue;
    if (!IsUtf8(name)) return false;
    if (Matches(name, part)) found->push_back({std::string(name), entry->d_type});
  }
}

int FilesUnder::Open(int directory, const std::string& name) const {
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (every_ ? O_NOFOLLOW : 0);
  return openat(directory, name.c_str(), flags);
}

bool FilesUnder::IsMeant(std::string_view name) const {
  return but_suffix_.empty() || name.size() < but_suffix_.size() ||
         name.substr(name.size() - but_suffix_.size()) != but_suffix_;
}

}  // namespace tfquiver
