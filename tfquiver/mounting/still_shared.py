"""A mounted data set that whoever mounted it may not read any more is read no further. Needs trio.

The node gives a shard to who can name it, and a mount has no epochs, at whose beginning a job would be asked for its
right. So the mount asks with its own token, now and then, whether there is such a data set for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio
from absl import logging

from tfquiver import errors
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.digests.digest import Digest
from tfquiver.mounting.node_line import NodeLine
from tfquiver.proto.tfquiver.v1 import coordinator_pb2

_EVERY_S = 10.0
_CALLS_S = 10.0
_TROUBLE = (errors.TfquiverError, OSError, RuntimeError, MemoryError)  # of a coordinator that is away nothing follows


async def watched(
    digest: Digest,
    line: NodeLine,
    coordinator: Callable[[], str],
    token: str,
    known_again: Callable[[], Awaitable[bool]],
) -> None:
    """Until it is cancelled: `line` refuses while there is none, unless `known_again` has just registered it."""
    request = coordinator_pb2.FindDatasetRequest(digest_id=digest.digest_id)

    def is_there() -> bool:
        with Registrar(coordinator(), None, token, _CALLS_S) as registrar:
            return registrar.find(request) is not None

    while True:
        await trio.sleep(_EVERY_S)
        try:
            may = await trio.to_thread.run_sync(is_there, abandon_on_cancel=True) or await known_again()
        except _TROUBLE as error:
            logging.vlog(1, "is %s still there? %s", digest.name, error)
            continue
        if may and line.refuses is not None:
            logging.info("%s may be read again", digest.name)
            line.refuses = None
        elif not may and line.refuses is None:
            line.refuses = errors.PermissionError_(
                f"{digest.name} is deleted, or not shared any more with whoever mounted it (tfquiver dataset share)"
            )
            logging.warning("%s", str(line.refuses))
