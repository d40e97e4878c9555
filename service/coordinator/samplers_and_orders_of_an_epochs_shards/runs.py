"""How many neighbours a session takes one after the other where they are missing. Pure.

Nodes read them from the store in one request. What is resident is drawn shard by shard all the same. A pool of 64 MiB
then shuffles what comes from some six places of the data set at a time, as an interleave of as many files would; so it
is done only where there are many more places than that.
"""

from __future__ import annotations

_MOST = 5  # of the usual 2 MiB: a fifth of the requests; longer ones would cost mixing and save little
_LEAST_RUNS = 64
_MOST_BYTES = 16 << 20  # what a node asks for at once


def run_of(shards: int, size_bytes: int) -> int:
    """Of a data set."""
    by_bytes = _MOST_BYTES * shards // max(size_bytes, 1)
    return max(1, min(_MOST, shards // _LEAST_RUNS, by_bytes))
