"""The first 8 bytes of hashes as numbers: what shards are sorted, looked up and given their owners by.

Two hashes of one node share these once in 10^6 clusters of 5 million shards; then a shard counts as resident that its
owner has to fetch. Nothing else depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Prefixes = npt.NDArray[np.uint64]
PREFIX_BYTES = 8
_AT_ONCE = 1 << 18


def of_rows(hashes: npt.NDArray[np.uint8]) -> Prefixes:
    """Shape [hashes], of an array of shape [hashes, 32]."""
    return np.ascontiguousarray(hashes[:, :8]).view("<u8").reshape(-1).astype(np.uint64)


def of_hashes(hashes: Iterable[bytes]) -> Prefixes:
    """Shape [hashes]. Each has 8 bytes at least."""
    return np.frombuffer(b"".join(hash[:8] for hash in hashes), "<u8").astype(np.uint64, copy=False)


def of_hash(hash: bytes) -> np.uint64:
    return np.uint64(number_of(hash))


def number_of(hash: bytes) -> int:
    return int.from_bytes(hash[:8], "little")


def strike(struck: npt.NDArray[np.bool_], ordered: Prefixes, hashes: npt.NDArray[np.uint8]) -> None:
    """Sets `struck` where a prefix of `ordered` (sorted) is that of one of `hashes`, of shape [hashes, 32]."""
    for at in range(0, len(hashes) if len(ordered) else 0, _AT_ONCE):  # others may run in between
        its = of_rows(hashes[at : at + _AT_ONCE])
        found = np.minimum(np.searchsorted(ordered, its), len(ordered) - 1)
        struck[found[ordered[found] == its]] = True
