"""The iterators of this process, all together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def iterators_stopped() -> Iterator[None]:
    """While in it, every tfquiver iterator of this process that waits, or would, raises `tf.errors.CancelledError`.

    For those who run a `tf.data.experimental.service.WorkerServer` in a process of their own: stopping one holds the
    interpreter's lock and waits for its iterators, which may be waiting for records that only other workers can emit.
    So stop it in here: `with tfquiver.iterators_stopped(): worker._stop()`. (`tfquiver-worker` does; when a process
    ends, its iterators are stopped by themselves.) Iterators that were stopped stay so; new ones work afterwards.

    Raises ImportError when there is no op library.
    """
    from tfquiver.ops.compiling_and_loading import loader

    library = loader.load()
    library.stop_all()
    try:
        yield
    finally:
        library.resume_all()
