"""Whether the coordinator of this machine's daemon knows a data set already: asked before gRPC is imported.

gRPC's library takes 40 ms of a processor to import and to make its first call, as long as all else that a client does
until its first batch. Whatever is in the way, the answer is that it is not known: then `Registrar` asks, with patience.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError

from tfquiver import errors
from tfquiver.grpc_plumbing.unary_call import unary_call
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.tensorflow_dispatcher_and_worker_connections import proto_wire

FIND = "/tfquiver.v1.Coordinator/FindDataset"
LISTING_KEY = 2  # of FindDatasetRequest
_ANSWER_S = 1.0
_MOST_BYTES = 1 << 20


def known_at_once(coordinator: str, listing_key: bytes, patience_s: float) -> types_pb2.Dataset | None:
    """The data set of that listing; None: not known, or it has to be asked in another way. Shows no token.

    `coordinator`: asked only at unix:/path. A machine that is silent would be waited for twice.
    """
    if not coordinator.startswith("unix:"):
        return None
    request = proto_wire.text(LISTING_KEY, listing_key)
    try:
        reply = unary_call(coordinator, FIND, request, min(_ANSWER_S, patience_s), _MOST_BYTES)
        return types_pb2.Dataset.FromString(reply)
    except (OSError, errors.ProtocolError, DecodeError):
        return None
