"""Which workers a dispatcher of TensorFlow's service knows: all that ever registered with it."""

from __future__ import annotations

from tfquiver.tensorflow_dispatcher_and_worker_connections import proto_wire

GET_WORKERS = "/tensorflow.data.DispatcherService/GetWorkers"  # its request is empty


def addresses(reply: bytes) -> list[str]:
    """Of GetWorkersResponse {1: {1: address}, ...}. Raises ProtocolError."""
    infos = [value for number, value in proto_wire.fields(reply) if number == 1 and isinstance(value, bytes)]
    found = (value for info in infos for number, value in proto_wire.fields(info) if number == 1)
    return [value.decode(errors="replace") for value in found if isinstance(value, bytes)]
