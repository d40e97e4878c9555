"""How much of a data set that is not followed is here. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from tfquiver.digests.digest import Digest
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_rows

_LOOKED_UP_AT_ONCE = 500_000  # hashes


@dataclass(frozen=True, slots=True)
class Here:
    """Raw bytes, and how many, of the shards that some node has; and the bytes that nodes have of them in all, where
    several have one each of them."""

    size_bytes: int
    shards: int
    kept_bytes: int


def what_is_here(digest: Digest, held: Collection[Prefixes]) -> Here:
    """For a thread: seconds of millions, in steps in which numpy lets others run. What a small data set costs grows
    with how many nodes there are, not with what they hold.

    Args:
      held: what each node holds, sorted.
    """
    prefixes = of_rows(digest.hashes)
    order = np.argsort(prefixes, kind="stable")
    contents, lengths = prefixes[order], digest.lengths[order]
    here, kept_bytes = np.zeros(len(contents), np.bool_), 0
    is_first = np.ones(len(contents), np.bool_)  # of equal ones: a node keeps them once
    is_first[1:] = contents[1:] != contents[:-1]
    if len(contents) * len(held) <= sum(map(len, held)):
        for values in held:
            if len(values):
                its = values.take(np.searchsorted(values, contents), mode="clip") == contents
                here |= its
                kept_bytes += int(lengths[its & is_first].sum())
        return Here(int(lengths[here].sum()), int(here.sum()), kept_bytes)
    for values in _some(held) if len(contents) else ():
        at = np.searchsorted(contents, values)
        found = at[contents.take(at, mode="clip") == values]
        here[found] = True
        kept_bytes += int(lengths[found].sum())
    # Of equal ones it is the first that was found.
    firsts = np.maximum.accumulate(np.where(is_first, np.arange(len(contents)), 0))
    here |= here[firsts]
    return Here(int(lengths[here].sum()), int(here.sum()), kept_bytes)


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
