"""Which shards of a data set are here, as a bitmap."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tfquiver.digests.digest import Digest


def bitmap(digest: Digest, is_here: Callable[[bytes], bool]) -> bytes:
    """Bit i of byte i/8, least significant first, is set where shard i is. For a thread: there may be millions."""
    here = (is_here(row.tobytes()) for row in digest.hashes)
    return np.packbits(np.fromiter(here, np.bool_, digest.num_shards), bitorder="little").tobytes()
