#ifndef TFQUIVER_OPS_TF_TICKETS_READER_TICKET_H_
#define TFQUIVER_OPS_TF_TICKETS_READER_TICKET_H_

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "ops/core/progress_and_checkpoints/checkpoint.h"
#include "ops/core/reader_and_its_conversation_with_the_node/session_protocol.h"
#include "ops/core/told_by_python/options.h"
#include "ops/tf/quiver_dataset_op/quiver_dataset.h"
#include "tensorflow/core/framework/dataset.h"

namespace tfquiver {

// How the reader of a tf.data worker, or of a mop-up, comes by its session.

// A split is a ticket, or, from the QuiverOnceDataset that this is to complete, what is done: then
// this is a reader by itself, of a session that no ticket may lead to. *start, which is of this
// data set, becomes where it begins; it stays as it is for a ticket.
absl::Status ReadSplit(std::string_view split, SessionOptions* session, Options* options,
                       Checkpoint* start);

// The worker came, or came back, after the epoch's end: readers that were lost since then, its own
// perhaps, have not delivered all that they had emitted. (Of tagged records the trainer knows by
// itself which are missing.) *late is false when nothing is. While nobody can be asked, or `pause`
// says false (the iterator was stopped), that is unknown and no end: the client repeats what is
// UNAVAILABLE. `asker_id`: by which the coordinator knows who asks.
absl::Status AskForLateTicket(const Source& source, const std::string& asker_id,
                              const std::function<bool(std::chrono::milliseconds)>& pause,
                              std::string* session_id, bool* late);

// Which session the reader of a stream has part in: the one that is under way, or the next; *over
// when that has ended meanwhile. `pause` as above; `give_up`: after so long without an answer.
absl::Status JoinStream(const Source& source, const std::string& asker_id,
                        std::chrono::milliseconds give_up,
                        const std::function<bool(std::chrono::milliseconds)>& pause,
                        std::string* session_id, bool* over);

// Asked once more after the end, so that the dispatcher learns of it and tells late workers.
void TellOfTheEnd(tensorflow::data::SplitProvider* provider);

}  // namespace tfquiver

#endif  // TFQUIVER_OPS_TF_TICKETS_READER_TICKET_H_
