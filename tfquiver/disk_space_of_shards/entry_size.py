"""What a shard takes on a node's disk: nodes account for it, the coordinator plans with it. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

PAGE_BYTES = 4096  # of an entry's header, and what its body is rounded up to


def most_disk_bytes(raw_bytes: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Of entries with so many raw bytes each, of any shape, where compressing them does not make them smaller."""
    pages = -(-raw_bytes.astype(np.int64) // PAGE_BYTES) + 1
    sizes: npt.NDArray[np.int64] = pages * PAGE_BYTES
    return sizes
