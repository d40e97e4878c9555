"""This process's connections to the workers that its data sets are read through."""

from __future__ import annotations

import contextlib
import time

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.grpc_plumbing.unary_call import unary_call
from tfquiver.tensorflow_dispatcher_and_worker_connections import worker_list
from tfquiver.tensorflow_dispatcher_and_worker_connections.silent_machines import SilentMachines

# Longer than a coordinator waits for a node (`--node_timeout_ms`): where the worker's node was cut off, too, what was
# under way is given to others by then. One that only this process does not reach may lose an element (decision 0066).
SILENCE_S = 30.0
_ANSWER_S, _LOOK_S = 2.0, 9.0
_MOST_BYTES = 4 << 20


class WorkerConnections:
    """Of the dispatcher's workers and to the dispatcher. Not thread-safe."""

    def __init__(self, dispatcher: str) -> None:
        self._dispatcher = dispatcher
        self._workers: list[str] = []
        self._machines = SilentMachines(SILENCE_S)
        self._due_s = 0.0

    def look(self) -> None:
        """Sees to it that those to a machine that is silent end; at most every nine seconds. Raises OSError, as
        `SilentMachines.look`."""
        if time.monotonic() < self._due_s:
            return
        self._due_s = time.monotonic() + _LOOK_S
        with contextlib.suppress(OSError, errors.ProtocolError):  # those that it told of before
            for one in addresses.each(self._dispatcher):
                reply = unary_call(one, worker_list.GET_WORKERS, b"", _ANSWER_S, _MOST_BYTES)
                self._workers = worker_list.addresses(reply)
        self._machines.look([*self._workers, *addresses.each(self._dispatcher)])
