#include "ops/reader_library_without_tensorflow/files_under.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace tfquiver {
namespace {

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

void Put(std::string_view text, std::string* to) {
  const uint64_t size = text.size();
  for (int shift = 0; shift < 64; shift += 8) to->push_back(static_cast<char>(size >> shift));
  to->append(text);
}

}  // namespace

bool FilesUnder::Look(const std::string& root, std::string_view pattern,
                      std::string_view but_suffix) {
  names_.clear();
  numbers_.clear();
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
  return Within(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), 0, "");
}

bool FilesUnder::Within(int directory, size_t level, const std::string& above) {
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(directory < 0 ? nullptr : fdopendir(directory),
                                                   &closedir);
  if (opened == nullptr) {
    if (directory >= 0) close(directory);
    return false;
  }
  const bool is_last = level + 1 == parts_.size();
  std::vector<Name> found;
  bool is_sound = true;
  if (!IsMagic(parts_[level])) {
    found.push_back({parts_[level], DT_UNKNOWN});
  } else {
    is_sound = NamesIn(opened.get(), parts_[level], &found);
    // As the names of all that is in them will be sorted.
    if (!is_last) {
      for (Name& name : found) name.text += '/';
    }
    std::sort(found.begin(), found.end(),
              [](const Name& a, const Name& b) { return a.text < b.text; });
    if (!is_last) {
      for (Name& name : found) name.text.pop_back();
    }
  }
  for (auto name = found.begin(); is_sound && name != found.end(); ++name) {
    const bool may_be_link = !every_ && name->type == DT_LNK;
    if (is_last) {
      if (name->type == DT_REG || name->type == DT_UNKNOWN || may_be_link) {
        is_sound = Taken(directory, name->text, above);
      }
    } else if (name->type == DT_DIR || name->type == DT_UNKNOWN || may_be_link) {
      is_sound = Entered(directory, name->text, level, above);
    }
  }
  return is_sound;
}

bool FilesUnder::Entered(int directory, const std::string& name, size_t level,
                         const std::string& above) {
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (every_ ? O_NOFOLLOW : 0);
  const int entered = openat(directory, name.c_str(), flags);
  if (entered < 0) return !every_ && IsAbsent(errno);
  return Within(entered, level + 1, above + name + '/');
}

bool FilesUnder::Taken(int directory, const std::string& name, const std::string& above) {
  const std::string_view suffix = but_suffix_;
  if (!suffix.empty() && name.size() >= suffix.size() &&
      std::string_view(name).substr(name.size() - suffix.size()) == suffix) {
    return true;
  }
  struct stat status{};
  if (fstatat(directory, name.c_str(), &status, every_ ? AT_SYMLINK_NOFOLLOW : 0) != 0) {
    // A name that is no pattern need not be there. One that was there and leads to nothing is told.
    struct stat link{};
    return IsAbsent(errno) && fstatat(directory, name.c_str(), &link, AT_SYMLINK_NOFOLLOW) != 0 &&
           IsAbsent(errno) && !IsMagic(parts_.back());
  }
  if (!S_ISREG(status.st_mode)) return true;
  names_.append(above).append(name).push_back('\0');
  numbers_.push_back({static_cast<uint64_t>(status.st_size),
                      status.st_mtim.tv_sec * int64_t{1'000'000'000} + status.st_mtim.tv_nsec,
                      static_cast<uint64_t>(status.st_ino)});
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

std::string FilesUnder::Listing(std::string_view prefix) const {
  std::string listing, uri, generation;
  listing.reserve(names_.size() + numbers_.size() * (prefix.size() + 72));
  size_t at = 0;
  for (const FileNumbers& file : numbers_) {
    const size_t end = names_.find('\0', at);
    uri.assign(prefix).append(names_, at, end - at);
    at = end + 1;
    const std::string size = std::to_string(file.size_bytes);
    generation.assign(std::to_string(file.modified_ns)).append("-").append(size).append("-");
    generation.append(std::to_string(file.inode));
    Put(uri, &listing);
    Put(size, &listing);
    Put(generation, &listing);
  }
  return listing;
}

}  // namespace tfquiver
