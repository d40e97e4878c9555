// The interface of libtfquiver_reader.so. Functions that can fail return a canonical status number
// (ops/core/status.h) and write what is wrong to `message`, cut to `room` bytes with its zero.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "ops/core/bytes_checksums_tfrecords/crc32c.h"
#include "ops/core/progress_and_checkpoints/begun.h"
#include "ops/core/told_by_python/process.h"
#include "ops/reader_library_without_tensorflow/batch.h"
#include "ops/reader_library_without_tensorflow/files_under.h"
#include "ops/reader_library_without_tensorflow/named_files.h"
#include "ops/reader_library_without_tensorflow/python_zlib.h"
#include "ops/reader_library_without_tensorflow/reader_handle.h"

#define TFQUIVER_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace tfquiver;

struct FoundFiles {
  FilesFound files;
  std::string listing;
};

// `look`: false where somebody else has to look.
template <typename Look>
int Find(const char* prefix, FoundFiles** found, const Look& look) {
  try {
    auto looked = std::make_unique<FoundFiles>();
    if (!look(&looked->files)) return static_cast<int>(Code::kUnimplemented);
    if (prefix != nullptr) looked->listing = looked->files.Listing(prefix);
    *found = looked.release();
    return 0;
  } catch (const std::exception&) {
    return static_cast<int>(Code::kUnimplemented);
  }
}

constexpr int kEnd = -1;  // no status: the epoch is over

int Said(const Status& status, char* message, int64_t room) {
  if (room > 0) {
    const size_t size = std::min(status.message().size(), static_cast<size_t>(room - 1));
    std::memcpy(message, status.message().data(), size);
    message[size] = '\0';
  }
  return static_cast<int>(status.code());
}

// No exception passes into C.
template <typename Run>
int Guarded(char* message, int64_t room, const Run& run) {
  try {
    return run();
  } catch (const std::exception& error) {
    return Said(Status(Code::kResourceExhausted, error.what()), message, room);
  }
}

}  // namespace

// What tells this library from one of another version of tfquiver.
TFQUIVER_EXPORT int tfq_reader_interface() { return 2; }

TFQUIVER_EXPORT void tfq_set_kept_endpoint(const char* name, const char* socket_path, int kept) {
  Process::Get().SetEndpoint(name, socket_path, kept);
}

TFQUIVER_EXPORT void tfq_set_zlib(PythonZlib deflate, PythonZlib inflate) {
  SetPythonZlib(deflate, inflate);
}

TFQUIVER_EXPORT uint32_t tfq_crc32c(const char* data, int64_t size) {
  static const Crc32cExtend fastest = FastestCrc32c(&PortableCrc32c);
  return fastest(0, data, static_cast<size_t>(size));
}

// Files that are found (files_under.h), with what is made of them. kUnimplemented (12): somebody
// else has to look. `prefix`: of the listing; null: none is made.
TFQUIVER_EXPORT int tfq_files_under(const char* root, const char* pattern, const char* but_suffix,
                                    int every, const char* prefix, FoundFiles** found) {
  return Find(prefix, found, [&](FilesFound* files) {
    FilesUnder under(every != 0);
    const bool is_sound = under.Look(root, pattern, but_suffix);
    *files = std::move(under.found());
    return is_sound;
  });
}

// The same of files that are named (named_files.h): `bytes` of text.
TFQUIVER_EXPORT int tfq_files_named(const char* names, int64_t bytes, int64_t count,
                                    const char* directory, int in_order, const char* prefix,
                                    FoundFiles** found) {
  return Find(prefix, found, [&](FilesFound* files) {
    return LookAtNamed({names, static_cast<size_t>(bytes)}, static_cast<size_t>(count), directory,
                       in_order != 0, files);
  });
}

// 0: their names, 1: their numbers, 2: their listing. Good until they are freed.
TFQUIVER_EXPORT const void* tfq_files_part(const FoundFiles* found, int part, int64_t* bytes) {
  const std::string& text = part == 0 ? found->files.names : found->listing;
  if (part == 1) {
    *bytes = static_cast<int64_t>(found->files.numbers.size() * sizeof(FileNumbers));
    return found->files.numbers.data();
  }
  *bytes = static_cast<int64_t>(text.size());
  return text.data();
}

TFQUIVER_EXPORT void tfq_files_free(FoundFiles* found) { delete found; }

// `options`: JSON (options.h). `digest_id`: 32 bytes. `label`: for the node's listings.
// `provider_id`
// "": reads alone; else the session of the ticket of that name, with `adopts` at first any open one
// of `session_key`. `in_turn`: Role::kReaderInTurn. `epoch`: the number that deterministic orders
// are made of; -1: as the coordinator counts. `position`: of tfq_reader_position, or null;
// `begun_of_shards`: of it, what it
// had begun, in a data set of so many shards; 0: all that is left of it.
TFQUIVER_EXPORT int tfq_reader_new(const char* options, const char* digest_id,
                                   const char* session_key, const char* label,
                                   const char* provider_id, int adopts, int in_turn, int64_t epoch,
                                   const char* position, int64_t position_bytes,
                                   int64_t begun_of_shards, ReaderHandle** reader, char* message,
                                   int64_t room) {
  return Guarded(message, room, [&] {
    Options parsed;
    Status status = ParseOptions(options, &parsed);
    if (!status.ok()) return Said(status, message, room);
    SessionOptions session;
    session.digest_id.assign(digest_id, kIdBytes);
    session.session_key = session_key;
    session.label = label;
    session.in_turn = in_turn != 0;
    Checkpoint start;
    start.epoch = epoch;
    if (position != nullptr) {
      status = ReadCheckpoint({position, static_cast<size_t>(position_bytes)}, session.digest_id,
                              FastestCrc32c(&PortableCrc32c), PythonZlibCodec(), &start);
      if (!status.ok()) return Said(status, message, room);
    }
    if (begun_of_shards > 0) {
      if (start.marks.shards == 0) start.marks.shards = static_cast<uint64_t>(begun_of_shards);
      KeepBegun(&start);
    }
    *reader = new ReaderHandle(std::move(parsed), std::move(session),
                               Sharing{provider_id, adopts != 0}, std::move(start));
    return 0;
  });
}

// kEnd at the end of the epoch; DEADLINE_EXCEEDED (4) when nothing came in `wait_ms`.
TFQUIVER_EXPORT int tfq_reader_next(ReaderHandle* reader, int64_t wait_ms, int contiguous,
                                    TfqBatch* batch, char* message, int64_t room) {
  return Guarded(message, room, [&] {
    bool end = false;
    const Status status =
        reader->Next(std::chrono::milliseconds(wait_ms), contiguous != 0, batch, &end);
    return status.ok() && end ? kEnd : Said(status, message, room);
  });
}

TFQUIVER_EXPORT void tfq_batch_free(void* owner) { FreeBatch(owner); }

// Writes the position to `to` where it fits `*size` bytes; *size becomes how many it has.
TFQUIVER_EXPORT int tfq_reader_position(ReaderHandle* reader, char* to, int64_t* size,
                                        char* message, int64_t room) {
  return Guarded(message, room, [&] {
    std::string position;
    const Status status = reader->Position(&position);
    if (!status.ok()) return Said(status, message, room);
    const auto bytes = static_cast<int64_t>(position.size());
    if (bytes <= *size) std::memcpy(to, position.data(), position.size());
    *size = bytes;
    return 0;
  });
}

// Which shards a position has done and which it has begun: bit i of byte i/8 of `done`, which both
// have included, is shard i. As tfq_reader_position.
TFQUIVER_EXPORT int tfq_position_touched(const char* position, int64_t position_bytes,
                                         const char* digest_id, char* to, int64_t* size,
                                         uint64_t* shards, char* message, int64_t room) {
  return Guarded(message, room, [&] {
    Checkpoint checkpoint;
    const Status status =
        ReadCheckpoint({position, static_cast<size_t>(position_bytes)}, {digest_id, kIdBytes},
                       FastestCrc32c(&PortableCrc32c), PythonZlibCodec(), &checkpoint);
    if (!status.ok()) return Said(status, message, room);
    std::vector<uint8_t> touched = checkpoint.marks.done;
    touched.resize((checkpoint.marks.shards + 7) / 8);
    for (const auto& [shard, emitted] : checkpoint.marks.partly) {
      touched[shard / 8] |= static_cast<uint8_t>(1 << shard % 8);
    }
    const auto bytes = static_cast<int64_t>(touched.size());
    if (bytes <= *size && bytes > 0) std::memcpy(to, touched.data(), touched.size());
    *size = bytes;
    *shards = checkpoint.marks.shards;
    return 0;
  });
}

// The next warning, cut to `room` bytes; 0 when there is none.
TFQUIVER_EXPORT int tfq_reader_warning(ReaderHandle* reader, char* message, int64_t room) {
  const std::string warning = reader->Warning();
  Said(Status(Code::kUnknown, warning), message, room);
  return warning.empty() ? 0 : 1;
}

TFQUIVER_EXPORT void tfq_reader_stop(ReaderHandle* reader) { reader->Stop(); }

TFQUIVER_EXPORT void tfq_reader_free(ReaderHandle* reader) { delete reader; }
