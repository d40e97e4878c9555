"""As many records as were asked for, each once, by weight: those with the smallest keys (pure)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tfquiver.messages_and_binary_formats.record_picks import RecordPicks
from tfquiver.messages_and_binary_formats.record_weights import Values
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.seeded_numbers import uniform

AT_ONCE = 1 << 20  # records: what is computed of them takes some 30 MiB
_BIN_BITS = 16


def keys(seed: int, values: Values, first: int) -> npt.NDArray[np.float64]:
    """Of each record -ln(u) / weight, infinite where that is 0, shape [records]. The records with the smallest keys are
    a sample as if one after the other was drawn by weight, and not put back (Efraimidis and Spirakis, Information
    Processing Letters 97, 2006: u ** (1 / weight), largest first)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # -0.0 is a weight of 0 as well: its key is to be infinite, and not below all others.
        found: npt.NDArray[np.float64] = -np.log(uniform(seed, len(values), first) + 2.0**-54) / np.abs(values)
    return found


def most_key(seed: int, values: Values, count: int) -> float:
    """Between the keys of `count` records and all others, of which there are some or none; `count` is at most that of
    weights above 0. In bounded memory, for any number of records: some 1 % of the keys are in one bin, whatever the
    weights are.

    In the middle between two keys: where a logarithm of another machine ends in another bit, it means the same.
    """
    bins = np.zeros(1 << _BIN_BITS, np.int64)
    for at in range(0, len(values), AT_ONCE):
        bins += np.bincount(_bin(keys(seed, values[at : at + AT_ONCE], at)), minlength=len(bins))
    ends = np.cumsum(bins)
    last_bin = int(np.searchsorted(ends, count, "left"))  # the count-th smallest is in it
    among, filled, beyond = np.empty(int(bins[last_bin])), 0, np.inf
    for at in range(0, len(values), AT_ONCE):
        part = keys(seed, values[at : at + AT_ONCE], at)
        bin_of = _bin(part)
        inside = part[bin_of == last_bin]
        among[filled : filled + len(inside)] = inside
        filled += len(inside)
        beyond = min(beyond, float(part.min(where=bin_of > last_bin, initial=np.inf)))
    place = count - int(ends[last_bin] - bins[last_bin])
    among.partition(sorted({place - 1, min(place, len(among) - 1)}))
    last_key, next_key = float(among[place - 1]), float(among[place]) if place < len(among) else beyond
    # Those that are infinite are of weights that are 0.
    return last_key * (1 + 2.0**-40) if next_key == np.inf else last_key + (next_key - last_key) / 2


def picked_of_shards(picks: RecordPicks, values: Values, before: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How many records have keys that are not above most_key, of each shard, shape [shards].

    `before`: records before each shard, and all, shape [shards + 1].
    """
    picked_before, picked = np.zeros(len(before), np.int64), 0
    for at in range(0, len(values), AT_ONCE):
        part = keys(picks.seed, values[at : at + AT_ONCE], at) <= picks.most_key
        sums = np.cumsum(part)
        first, end = np.searchsorted(before, (at + 1, at + len(part) + 1))  # shards' beginnings in this part
        picked_before[first:end] = picked + sums[before[first:end] - at - 1]
        picked += int(sums[-1])
    return np.diff(picked_before)


def _bin(keys: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """In the order of the keys, which are not below 0: the first bits of each, without the sign."""
    return (keys.view(np.uint64) << np.uint64(1) >> np.uint64(64 - _BIN_BITS)).astype(np.int64)
