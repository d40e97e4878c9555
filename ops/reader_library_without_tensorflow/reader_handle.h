#ifndef TFQUIVER_OPS_READER_LIBRARY_WITHOUT_TENSORFLOW_READER_HANDLE_H_
#define TFQUIVER_OPS_READER_LIBRARY_WITHOUT_TENSORFLOW_READER_HANDLE_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "ops/core/progress_and_checkpoints/checkpoint.h"
#include "ops/core/reader_and_its_conversation_with_the_node/reader.h"
#include "ops/core/told_by_python/options.h"
#include "ops/reader_library_without_tensorflow/batch.h"

namespace tfquiver {

// By which session a reader finds, as a ticket names it; without `provider_id` it reads alone.
struct Sharing {
  std::string provider_id;
  bool adopts = false;  // at first an open session of this key, whoever made it
};

// One reader, for somebody who takes batches from it: Next, Position and Warning from one thread at
// a time, Stop from any.
class ReaderHandle {
 public:
  // Starts its thread, and waits for nothing. `session` says which data set and key. `start`: where
  // to go on; epoch -1: as the coordinator counts.
  ReaderHandle(Options options, SessionOptions session, Sharing sharing, Checkpoint start);
  // Stops, and waits for its own thread.
  ~ReaderHandle();
  ReaderHandle(const ReaderHandle&) = delete;
  ReaderHandle& operator=(const ReaderHandle&) = delete;

  // The next batch; *end when there is none. kDeadlineExceeded after `wait`: ask again.
  Status Next(std::chrono::milliseconds wait, bool contiguous, TfqBatch* batch, bool* end);
  // Where it is now, behind the last batch. kFailedPrecondition within one.
  Status Position(std::string* position);
  // What it has to say to people, oldest first; empty: nothing.
  std::string Warning();
  // Whoever waits, or would, gets kCancelled.
  void Stop();

 private:
  void Run();
  Status TakeTicket(std::string* session_id, bool* end);
  std::unique_ptr<Reader> MakeReader(std::string session_id);
  void Warn(const std::string& message);

  const Options options_;
  const SessionOptions session_;
  const Sharing sharing_;
  const Checkpoint start_;
  std::mutex mu_;
  std::condition_variable changed_;
  bool stopped_ = false;
  bool over_ = false;  // the session had ended before this reader came
  Status failed_;      // before there was a reader
  std::unique_ptr<Reader> reader_;
  std::deque<std::string> warnings_;
  Drawn drawn_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_READER_LIBRARY_WITHOUT_TENSORFLOW_READER_HANDLE_H_
