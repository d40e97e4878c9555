"""Which files to read next: those that are cached now, in random order, then the others, in random order (pure).

What a sampler takes when any order will do: an epoch of files as Quiver's is of records (FAST'20, section 4.7).
"""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt

from tfquiver.glob_patterns_and_file_trees.tree import FileTree
from tfquiver.mounting.read_plan import ReadPlan


def cached_files(plan: ReadPlan, bitmap: bytes, files: int) -> npt.NDArray[np.bool_]:
    """Shape [files]: all shards of the file are cached.

    `bitmap`: bit i of byte i/8, least significant first: shard i is.
    """
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
    before = np.concatenate([[0], np.cumsum(bits, dtype=np.int64)])
    first = plan.first_shards
    cached: npt.NDArray[np.bool_] = before[first[1:]] - before[first[:-1]] == first[1:] - first[:-1]
    return cached[:files]


def lines(tree: FileTree, cached: npt.NDArray[np.bool_], choose: random.Random, end: str = "\n") -> bytes:
    """Every file's path once, each with `end` behind it; not those that have it in their names."""
    here: list[str] = []
    elsewhere: list[str] = []
    for path, index in tree.files():
        if end not in path:
            (here if cached[index] else elsewhere).append(path)
    choose.shuffle(here)
    choose.shuffle(elsewhere)
    return "".join(f"{path}{end}" for path in here + elsewhere).encode()
