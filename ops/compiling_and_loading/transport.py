"""tf.data service's element transport of this process: the library beside the op's, for the TensorFlow that it fits."""

from __future__ import annotations

import atexit
import ctypes
import functools
from dataclasses import dataclass
from pathlib import Path

from absl import logging

from tfquiver.ops.compiling_and_loading import tensorflows

PROTOCOL = "tfquiver"


@dataclass(frozen=True)
class Counts:
    """Of this process, since it began."""

    elements_sent: int
    bytes_sent: int
    elements_received: int
    bytes_received: int
    fallbacks: int  # of clients that went on by gRPC


class Transport:
    """The loaded transport library. All methods are thread-safe."""

    def __init__(self, path: Path) -> None:
        self._c = ctypes.CDLL(str(path))
        self._c.tfq_build_info.restype = ctypes.c_char_p
        self.path = path

    def register(self) -> None:
        """Offers the protocol to TensorFlow's workers and clients of this process."""
        self._c.tfq_transport_register()

    def add_token(self, token: str) -> None:
        """A token that this process holds, for connections that are made from now on; "" is none."""
        self._c.tfq_transport_add_token(token.encode())

    def close(self) -> None:
        """Ends the transports of this process's workers; to be called before a worker is stopped. Does not wait."""
        self._c.tfq_transport_close()

    def join(self) -> None:
        """After `close`, and after the worker was stopped: waits until nothing of it is used any more."""
        self._c.tfq_transport_join()

    def counts(self) -> Counts:
        counts = (ctypes.c_uint64 * 5)()
        self._c.tfq_transport_counts(counts)
        return Counts(*counts)


def load() -> Transport | None:
    """Registered with TensorFlow; None, said in the log, where this TensorFlow has none: elements travel by gRPC."""
    import tensorflow as tf

    from tfquiver.ops.compiling_and_loading import loader

    return beside(loader.load().path, tf.__version__)


@functools.cache
def beside(op_library: Path, version: str) -> Transport | None:
    """As `load`, where the op is loaded already, from there, into a TensorFlow of this version."""
    name = tensorflows.transport_name(version)
    if not name:
        logging.info("TensorFlow %s: elements of tf.data service travel by gRPC", version)
        return None
    path = op_library.parent / name
    try:
        transport = Transport(path)
    except OSError as error:
        logging.warning("%s does not load: elements of tf.data service travel by gRPC: %s", path, error)
        return None
    transport.register()
    # Its connections would ask workers of this process that TensorFlow's teardown has taken away.
    atexit.register(transport.close)
    return transport
