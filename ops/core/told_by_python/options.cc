#include "ops/core/told_by_python/options.h"

#include <charconv>
#include <limits>
#include <variant>

namespace tfquiver {
namespace {

using Value = std::variant<std::string, int64_t, bool>;

// Reads a flat JSON object: strings, whole numbers, true and false. Nothing nested: the op has no
// such option.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool Skip(char expected) {
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != expected) return false;
    ++at_;
    return true;
  }
  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }
  size_t at() const { return at_; }

  bool ReadValue(Value* value) {
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == '"') return ReadString(&value->emplace<std::string>());
    if (Word("true")) return *value = true, true;
    if (Word("false")) return *value = false, true;
    int64_t number = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), number);
    if (error != std::errc()) return false;
    at_ += static_cast<size_t>(end - begin);
    *value = number;
    return true;
  }

  bool ReadString(std::string* out) {
    if (!Skip('"')) return false;
    out->clear();
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '"') return ++at_, true;
      if (static_cast<unsigned char>(c) < 0x20) return false;
      if (c != '\\') {
        out->push_back(c);
      } else if (!ReadEscape(out)) {
        return false;
      }
    }
    return false;
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[at_]) != std::string::npos) {
      ++at_;
    }
  }

  bool Word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  bool ReadHex(uint32_t* code) {
    if (text_.size() - at_ < 5) return false;
    const char* begin = text_.data() + at_ + 1;
    const auto [end, error] = std::from_chars(begin, begin + 4, *code, 16);
    at_ += 4;
    return error == std::errc() && end == begin + 4;
  }

  // at_ is on the backslash, and then on the last character of the escape.
  bool ReadEscape(std::string* out) {
    if (++at_ == text_.size()) return false;
    static constexpr std::string_view kNames = "\"\\/bfnrt";
    static constexpr std::string_view kMeant = "\"\\/\b\f\n\r\t";
    if (const size_t index = kNames.find(text_[at_]); index != std::string_view::npos) {
      out->push_back(kMeant[index]);
      return true;
    }
    uint32_t code = 0;
    if (text_[at_] != 'u' || !ReadHex(&code)) return false;
    if (code >= 0xD800 && code < 0xDC00) {
      uint32_t low = 0;
      if (text_.substr(at_ + 1, 2) != "\\u") return false;
      at_ += 2;
      if (!ReadHex(&low) || low < 0xDC00 || low > 0xDFFF) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code <= 0xDFFF) {
      return false;
    }
    AppendUtf8(code, out);
    return true;
  }

  static void AppendUtf8(uint32_t code, std::string* out) {
    const auto put = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xC0 | code >> 6);
      put(0x80 | (code & 63));
    } else if (code < 0x10000) {
      put(0xE0 | code >> 12);
      put(0x80 | (code >> 6 & 63));
      put(0x80 | (code & 63));
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 63));
      put(0x80 | (code >> 6 & 63));
      put(0x80 | (code & 63));
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

Status Wrong(const std::string& what) {
  return Status(Code::kInvalidArgument, "options of QuiverDataset: " + what);
}

template <typename T>
Status Set(const std::string& key, const Value& value, const char* kind, T* option) {
  if (const T* typed = std::get_if<T>(&value)) {
    *option = *typed;
    return Status();
  }
  return Wrong(key + " must be " + kind);
}

Status SetNumber(const std::string& key, const Value& value, int64_t least, int64_t most,
                 int64_t* option) {
  Status status = Set(key, value, "a whole number", option);
  if (status.ok() && (*option < least || *option > most)) {
    return Wrong(key + " is " + std::to_string(*option) + "; it must be from " +
                 std::to_string(least) + " to " + std::to_string(most));
  }
  return status;
}

Status SetOption(const std::string& key, const Value& value, Options* options) {
  constexpr int64_t kMost = int64_t{1} << 50;
  constexpr int64_t kMostMs = 7LL * 24 * 3600 * 1000;
  if (key == "endpoint") return Set(key, value, "a string", &options->endpoint);
  if (key == "job") return Set(key, value, "a string", &options->job);
  if (key == "drop_remainder") return Set(key, value, "true or false", &options->drop_remainder);
  if (key == "tagged") return Set(key, value, "true or false", &options->tagged);
  if (key == "files") return Set(key, value, "true or false", &options->files);
  if (key == "joins") return Set(key, value, "true or false", &options->joins);
  if (key == "deterministic") return Set(key, value, "true or false", &options->deterministic);
  if (key == "homogeneous") return Set(key, value, "true or false", &options->homogeneous);
  if (key == "with_position") return Set(key, value, "true or false", &options->with_position);
  if (key == "order_log") return Set(key, value, "a string", &options->order_log);
  if (key == "replay") return Set(key, value, "a string", &options->replay);
  if (key == "sampling") return Set(key, value, "a string", &options->sampling);
  if (key == "batch_size") return SetNumber(key, value, 0, 1 << 24, &options->batch_size);
  if (key == "parse_threads") return SetNumber(key, value, 0, 256, &options->parse_threads);
  if (key == "shuffle_bytes") return SetNumber(key, value, 0, kMost, &options->shuffle_bytes);
  if (key == "readahead_bytes") return SetNumber(key, value, 1, kMost, &options->readahead_bytes);
  if (key == "hold_back") return SetNumber(key, value, 0, kMost, &options->hold_back);
  if (key == "reconnect_ms") return SetNumber(key, value, 0, kMostMs, &options->reconnect_ms);
  if (key == "connect_ms") return SetNumber(key, value, 0, kMostMs, &options->connect_ms);
  if (key == "seed") {
    return SetNumber(key, value, 0, std::numeric_limits<int64_t>::max(), &options->seed);
  }
  return Wrong("unknown key " + key);
}

Status CheckOrder(const Options& options) {
  const bool logs = !options.order_log.empty() || !options.replay.empty();
  if (options.deterministic && (options.seed == 0 || options.homogeneous || logs)) {
    return Wrong("deterministic needs a seed, and neither homogeneous, order_log nor replay");
  }
  if (options.files && (options.shuffle_bytes > 0 || options.deterministic || options.homogeneous ||
                        options.tagged || logs)) {
    return Wrong(
        "files is an order of its own, of one reader: with shuffle_bytes 0, and without "
        "deterministic, homogeneous, tagged, order_log and replay");
  }
  if (options.with_position && (!options.deterministic || options.tagged)) {
    return Wrong("with_position needs deterministic, and not tagged");
  }
  if (options.joins && (options.files || options.tagged || logs || !options.sampling.empty())) {
    return Wrong(
        "joins: a stream has several readers: without files, tagged, order_log, replay and "
        "sampling");
  }
  if (options.homogeneous && !options.replay.empty()) {
    return Wrong("replay has the order of its log: without homogeneous");
  }
  if (!options.sampling.empty() && (options.seed == 0 || options.deterministic || options.files ||
                                    options.homogeneous || options.tagged || logs)) {
    return Wrong(
        "sampling needs a seed, and neither deterministic, files, homogeneous, tagged, order_log "
        "nor replay");
  }
  return Status();
}

}  // namespace

Status ParseOptions(std::string_view json, Options* options) {
  Scanner scanner(json);
  const auto malformed = [&scanner] {
    return Wrong("not a flat JSON object at byte " + std::to_string(scanner.at()));
  };
  if (!scanner.Skip('{')) return malformed();
  if (!scanner.Skip('}')) {
    do {
      std::string key;
      Value value;
      if (!scanner.ReadString(&key) || !scanner.Skip(':') || !scanner.ReadValue(&value)) {
        return malformed();
      }
      const Status status = SetOption(key, value, options);
      if (!status.ok()) return status;
    } while (scanner.Skip(','));
    if (!scanner.Skip('}')) return malformed();
  }
  if (!scanner.AtEnd()) return malformed();
  return CheckOrder(*options);
}

}  // namespace tfquiver
