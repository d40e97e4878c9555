#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tfquiver {

REGISTER_OP("QuiverOnceDataset")
    .Input("input_dataset: variant")
    .Input("mop_up_dataset: variant")
    .Input("digest_id: string")
    .Input("num_records: int64")
    .Input("num_shards: int64")
    .Input("endpoint: string")
    .Input("hold_back: int64")
    .Input("takeover_ms: int64")
    .Output("handle: variant")
    .Attr("output_types: list(type) >= 1")
    .Attr("output_shapes: list(shape) >= 1")
    .SetDoNotOptimize()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) {
      tensorflow::shape_inference::ShapeHandle scalar;
      for (int i = 0; i < c->num_inputs(); ++i) {
        TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 0, &scalar));
      }
      return tensorflow::shape_inference::ScalarShape(c);
    })
    .Doc(R"doc(
Every record of a data set exactly once an epoch, whatever happens to those who read it.

Both inputs are what was made, in the same way, of the elements of a tagged QuiverDataset of the same data set:
tensors, then the records' tags, then the id of their session. Elements are those of input_dataset (normally distributed
over tf.data service workers), without tags and session and without the records that were delivered before. When it has
ended, or has given nothing for takeover_ms, what is missing comes from mop_up_dataset, which is iterated in this
process, from where the delivered records end: its one source must be a QuiverDataset. Rows, not whole elements, are dropped where the tags are vectors.

What was delivered is acknowledged to its session through the node on this machine.

An iterator's checkpoint holds which records were delivered; it needs nothing of its inputs.

Fails with DATA_LOSS when the two together lack a record, INVALID_ARGUMENT when the number of rows is not that of the
tags, or tags are not of this data set, and with whatever its inputs fail with.

digest_id: 32 raw bytes that name the data set.
num_records: in the data set.
num_shards: in the data set.
endpoint: name of this machine's node in this process.
hold_back: a shard is acknowledged so many elements after the one with its last record.
takeover_ms: 0: wait for input_dataset for ever.
output_types: of the elements, without tags and session.
output_shapes: of the elements, without tags and session.
)doc");

}  // namespace tfquiver
