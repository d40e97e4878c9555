"""Whether a dispatcher has kept a data set that it has taken.

TensorFlow's dispatcher answers a registration before its disk has taken the graph, and does not look whether it did: on
a full disk the file is empty, and who reads the data set is told that it is out of range, as at an end.
"""

from __future__ import annotations

import grpc

from tfquiver import errors
from tfquiver.grpc_plumbing import rpc
from tfquiver.tensorflow_dispatcher_and_worker_connections import proto_wire

_GET = "/tensorflow.data.DispatcherService/GetDatasetDef"
_CALL_S = 10.0
# What reading a file says that is empty, cut off, damaged, or gone. Others say nothing of it: a graph that is larger
# than a message may be, a dispatcher that is away.
_LOST = (grpc.StatusCode.OUT_OF_RANGE, grpc.StatusCode.DATA_LOSS, grpc.StatusCode.NOT_FOUND)


def check(dispatcher: str, dataset_id: str, directory: str) -> None:
    """
    Args:
      dataset_id: as the dispatcher calls it.
      directory: in which the dispatcher keeps it, for people.

    Raises ResourceExhaustedError: it cannot read it.
    """
    with rpc.channel(dispatcher) as channel:
        ask = channel.unary_unary(_GET, request_serializer=bytes, response_deserializer=bytes)
        try:
            ask(proto_wire.text(1, dataset_id), timeout=_CALL_S)
        except grpc.RpcError as error:
            if error.code() in _LOST:
                raise errors.ResourceExhaustedError(
                    f"the tf.data service dispatcher at {dispatcher} has not kept the data set that it took "
                    f"({error.details()}): its disk is full, or fails: make room in {directory}, and distribute it "
                    "again"
                ) from error
