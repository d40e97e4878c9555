"""The orders in which records can come: what `order=` of `tfquiver.dataset` takes."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from tfquiver import errors
from tfquiver.users_arguments_checked.checks import absolute, check_flag, check_integer, size
from tfquiver.users_arguments_checked.option_groups import OptionGroup
from tfquiver.users_arguments_checked.sampled import Sampled

_MAX_SEED = (1 << 63) - 1


@dataclass(frozen=True, slots=True, repr=False)
class Shuffled(OptionGroup):
    """Another random order every epoch; what is cached comes first.

    Args:
      shuffle_bytes: records are drawn at random from a pool of about so many bytes; 0: each shard's records in order
        (shards still come in random order). A number of bytes, or text such as "64MiB".
      seed: makes the random choices of an epoch of `job` repeatable where the cache's contents are; jobs and epochs of
        one seed have other orders. 0 to 2**63 - 1.
      homogeneous: records come from one stripe unit (a stretch of the data set) at a time, so that where it is sorted
        by length, a batch holds records of like length; a batch is mixed only where one unit ends. A unit is about
        `shuffle_bytes` long, or a 64th of the data set where that is less, but no less than eight batches
        (`batch_size`, or 128 records); where the data set is cached by chunks, it is a unit of these.
      log_dir: folder to which the order that is served is written, a file an epoch (`epoch-00000.tqo`, ...; 16 bytes
        a shard), for `Replay`. Not for tf.data service. Iterators raise `tf.errors.AlreadyExistsError` naming a log
        that would be written over.

    Raises InvalidArgumentError naming what cannot be right.
    """

    _: KW_ONLY
    shuffle_bytes: int | str = "64MiB"
    seed: int | None = None
    homogeneous: bool = False
    log_dir: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        size("shuffle_bytes", self.shuffle_bytes, 0)
        if self.seed is not None:
            check_integer("seed", self.seed, 0, _MAX_SEED)
        check_flag("homogeneous", self.homogeneous)
        absolute("log_dir", self.log_dir)


@dataclass(frozen=True, slots=True, repr=False)
class Deterministic(OptionGroup):
    """A random order that is a function of `seed`, the epoch's number among those of `job`, `shuffle_bytes` and the
    data set alone, whatever is cached and however many readers there are.

    Shards come in a seeded permutation, in blocks of about `shuffle_bytes`, whose records are shuffled. A reader reads
    whole blocks and must wait for each of their shards, which costs throughput where the cache is cold.

    Args:
      seed: 0 to 2**63 - 1.
      shuffle_bytes: of a block; 0: each shard's records in order.
      with_position: elements are pairs of the records' positions in that order (int64, of the shape of the records)
        and the records. Merged by position, the outputs of all readers of an epoch are the sequence that one reader
        sees.

    Raises InvalidArgumentError naming what cannot be right.
    """

    seed: int
    _: KW_ONLY
    shuffle_bytes: int | str = "64MiB"
    with_position: bool = False

    def __post_init__(self) -> None:
        check_integer("seed", self.seed, 0, _MAX_SEED)
        size("shuffle_bytes", self.shuffle_bytes, 0)
        check_flag("with_position", self.with_position)


@dataclass(frozen=True, slots=True, repr=False)
class Replay(OptionGroup):
    """An order that was served before and logged by `Shuffled(log_dir=...)`, whatever is cached now.

    Takes the same files, `shuffle_bytes` and `readahead_bytes`. A log that was cut off (its process was killed) is
    replayed as far as it goes, with a warning. Iterators cannot be saved. Not for tf.data service. Iterators raise
    `tf.errors.NotFoundError`, `InvalidArgumentError` (another data set, other options) and `DataLossError`, naming the
    log.

    Args:
      log: a folder of logs, of which epoch n replays file n, or one log, which every epoch replays.
      shuffle_bytes: as it was.

    Raises InvalidArgumentError naming what cannot be right.
    """

    log: str | os.PathLike[str]
    _: KW_ONLY
    shuffle_bytes: int | str = "64MiB"

    def __post_init__(self) -> None:
        if not absolute("log", self.log):
            raise errors.InvalidArgumentError("log=None: must be a path")
        size("shuffle_bytes", self.shuffle_bytes, 0)


FILES: Literal["files"] = "files"
Order = Shuffled | Deterministic | Replay | Sampled | Literal["files"]
