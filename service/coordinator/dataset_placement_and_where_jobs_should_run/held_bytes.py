"""How much of a data set each node holds, and each rack. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tfquiver.digests.digest import Digest
from tfquiver.service.coordinator.dataset_placement_and_where_jobs_should_run.suggestions import Held
from tfquiver.shard_owners_chunks_hash_prefixes.places import Places
from tfquiver.shard_owners_chunks_hash_prefixes.prefixes import Prefixes, of_rows
from tfquiver.shard_owners_chunks_hash_prefixes.sorted_numbers import distinct


def held_of(digest: Digest, held: Mapping[str, Prefixes], racks: Mapping[str, str], places: Places | None) -> Held:
    """Takes a second for millions of shards, and little more for each node than what it holds: for a thread.

    Args:
      held: what each node holds, each once.
      racks: of the nodes.
    """
    contents, which = np.unique(of_rows(digest.hashes), return_inverse=True)
    # As floats these sums are right up to 2^53 bytes.
    lengths = np.bincount(which.reshape(-1), weights=digest.lengths, minlength=len(contents)).astype(np.int64)
    on_any, by_node, by_rack = np.zeros(len(contents), np.bool_), {}, {}
    of_rack: dict[str, list[npt.NDArray[np.intp]]] = {}
    for name, values in held.items():
        there = _among(contents, values)
        by_node[name] = int(lengths[there].sum())
        on_any[there] = True
        of_rack.setdefault(racks.get(name, ""), []).append(there)
    for rack, its in of_rack.items():
        if rack:
            by_rack[rack] = int(lengths[distinct(np.concatenate(its))].sum())
    return Held(int(lengths.sum()), int(lengths[on_any].sum()), by_node, by_rack, racks, places)


def _among(contents: Prefixes, values: Prefixes) -> npt.NDArray[np.intp]:
    """Where in `contents`, which are sorted, those of `values` stand that are there. Costs what there are of values."""
    if not len(contents):
        return np.empty(0, np.intp)
    at = np.minimum(np.searchsorted(contents, values), len(contents) - 1)
    found: npt.NDArray[np.intp] = at[contents[at] == values]
    return found
