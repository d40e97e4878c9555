"""How much of a data set that is not followed is here. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from tfquiver.digests.digest import Digest
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_rows

_LOOKED_UP_AT_ONCE = 500_000  # hashes


def bytes_here(digest: Digest, held: Collection[Prefixes]) -> int:
    """Raw bytes of those of its shards that some node has. For a thread: seconds of millions, in steps in which numpy
    lets others run. What a small data set costs grows with how many nodes there are, not with what they hold.

    Args:
      held: what each node holds, sorted.
    """
    prefixes = of_rows(digest.hashes)
    order = np.argsort(prefixes, kind="stable")
    contents, lengths = prefixes[order], digest.lengths[order]
    here = np.zeros(len(contents), np.bool_)
    if len(contents) * len(held) <= sum(map(len, held)):
        for values in held:
            if len(values):
                here |= values.take(np.searchsorted(values, contents), mode="clip") == contents
        return int(lengths[here].sum())
    for values in _some(held) if len(contents) else ():
        at = np.searchsorted(contents, values)
        here[at[contents.take(at, mode="clip") == values]] = True
    # Of equal ones it is the first that was found.
    firsts = np.maximum.accumulate(np.where(contents[1:] == contents[:-1], 0, np.arange(1, len(contents))))
    here[1:] |= here[firsts]
    return int(lengths[here].sum())


def _some(held: Collection[Prefixes]) -> Iterator[Prefixes]:
    """Of several nodes together, sorted: neighbours are looked for one after the other."""
    part, hashes = list[Prefixes](), 0
    for values in held:
        part.append(values)
        hashes += len(values)
        if hashes >= _LOOKED_UP_AT_ONCE:
            yield np.sort(np.concatenate(part))
            part, hashes = [], 0
    if hashes:
        yield np.sort(np.concatenate(part))
