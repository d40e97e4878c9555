"""What the dispatcher's and the worker's `main` need to live with TensorFlow's embedded servers."""

from __future__ import annotations

from collections.abc import Sequence

from absl import logging
from prometheus_client.registry import Collector

from tfquiver.ops.compiling_and_loading.told import Told
from tfquiver.service.common_to_servers import serving
from tfquiver.service.metrics import exposition

_STOP_S = 2.0


def leave_in_time(library: Told) -> None:
    """To be called before a server is stopped: this process is gone two seconds later, with exit code 0.

    `stop()` of TensorFlow's worker waits until the dispatcher has heard which tasks are finished: for ever, when it is
    dead. All the while it holds the interpreter's lock, so no Python code could give up.
    """
    serving.flush()
    library.leave_after(_STOP_S)


async def until_stopped(
    library: Told, server: str, metrics_address: str, instruments: Sequence[Collector] = (), **announced: object
) -> None:
    """Tells whoever waits for the ready line, and returns when this process is to stop, soon and whatever happens."""
    stop = serving.stop_event()
    try:
        with exposition.exposed(metrics_address, server, exposition.nothing, instruments) as where:
            serving.announce(server, **announced, metrics=where)
            await stop.wait()
            logging.info("stopping")
    finally:
        leave_in_time(library)
        library.stop_all()  # before a server's stop(), which waits for every iterator
