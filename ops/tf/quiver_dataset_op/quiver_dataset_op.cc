#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tfquiver {

constexpr int kScalarInputs = 4;

// SetDoNotOptimize: without it the graph optimiser folds the source into a constant that cannot be
// serialised.
REGISTER_OP("QuiverDataset")
    .Input("digest_id: string")
    .Input("session_key: string")
    .Input("options: string")
    .Input("num_records: int64")
    .Input("parse_defaults: Tdense")
    .Output("handle: variant")
    .Attr("dense_keys: list(string) >= 0 = []")
    .Attr("Tdense: list({float, int64, string}) >= 0 = []")
    .Attr("dense_shapes: list(shape) >= 0 = []")
    .Attr("sparse_keys: list(string) >= 0 = []")
    .Attr("sparse_types: list({float, int64, string}) >= 0 = []")
    .Attr("ragged_keys: list(string) >= 0 = []")
    .Attr("ragged_types: list({float, int64, string}) >= 0 = []")
    .Attr("ragged_splits: list({int32, int64}) >= 0 = []")
    .Attr(
        "field_types: list({half, float, double, int32, uint16, uint8, int16, int8, int64, "
        "complex64, complex128, bool, bfloat16}) >= 0 = []")
    .Attr("field_shapes: list(shape) >= 0 = []")
    .Attr("field_little_endian: list(bool) >= 0 = []")
    .Attr("field_offsets: list(int) >= 0 = []")
    .SetDoNotOptimize()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle scalar;
      for (int i = 0; i < kScalarInputs; ++i) {
        TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 0, &scalar));
      }
      return tensorflow::shape_inference::ScalarShape(c);
    })
    .Doc(R"doc(
The records of a data set in random order, each once an epoch, from the tfquiver node on this machine.

Elements are one string tensor: a record, shape [] (batch_size 0), or a batch of records, shape [batch_size], the last
one smaller unless drop_remainder. With tagged there are two more: int64 tags of the records, shaped alike, and the
string id of the session that they belong to, shape [] (exactly_once: QuiverOnceDataset takes them off again). Every iterator is one reader of a session; in a tf.data service job with dynamic
sharding all workers' iterators of one epoch share a session, and each record goes to one of them.

Fails with INVALID_ARGUMENT (options, a checkpoint of another data set), FAILED_PRECONDITION (no node is known in this
process; an object changed under its digest), UNAVAILABLE (the node cannot be reached in time), DATA_LOSS (a shard that
stays damaged), ABORTED (the node breaks the protocol), CANCELLED.

digest_id: 32 raw bytes that name the data set.
session_key: unique for each time a pipeline is distributed; empty in a trainer that reads by itself.
options: one flat JSON object: endpoint, job, batch_size, drop_remainder, parse_threads, tagged, shuffle_bytes, seed, readahead_bytes,
  hold_back (elements), reconnect_ms, connect_ms, files, deterministic, homogeneous, with_position (elements are then an int64
  tensor of the records' positions in the order, and the records), order_log, replay,
  sampling, joins (a stream: the session of session_key that is under way, whoever made it, or the next).
num_records: in the data set, for the cardinality.
parse_defaults, dense_keys, Tdense, dense_shapes, sparse_keys, sparse_types, ragged_keys, ragged_types, ragged_splits: as
  in ParseExampleV2; where there is a key, records are tf.train.Example protos, and instead of the string tensor come a
  tensor of each dense feature, the indices, values and shape of each sparse one, and the values and row splits of each
  ragged one. Needs a batch_size.
field_types, field_shapes, field_little_endian, field_offsets: of numbers at the same places (bytes from the start) of
  every record; instead of the string tensor comes a tensor of each field, as tf.io.decode_raw makes it, shape [batch_size]
  and the field's. A record that does not end with the last field is INVALID_ARGUMENT, which names it. Not with features.
  Needs a batch_size.
)doc");

}  // namespace tfquiver
