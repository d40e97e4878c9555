"""Arguments of `tfquiver.dataset` that belong together, and that most calls leave alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields

from tfquiver import errors
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.users_arguments_checked.checks import check_integer, check_name, check_seconds, size

_MAX_HOLD_BACK = 1 << 31
_MAX_PARSE_THREADS = 256

Progress = Callable[[int, int], None]  # bytes done, bytes in all


class OptionGroup:
    """Of frozen dataclasses: says of itself what differs from its defaults."""

    __slots__ = ()

    def __repr__(self) -> str:
        given = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]  # type: ignore[arg-type]
        said = ", ".join(f"{name}={value!r}" for name, value, default in given if value != default)
        return f"{type(self).__name__}({said})"


@dataclass(frozen=True, slots=True, repr=False)
class Reading(OptionGroup):
    """How records are read ahead, and when they count as read. `tfquiver.dataset(..., reading=tfquiver.Reading(...))`.

    Args:
      readahead_bytes: bytes of shards asked for ahead of the pool that records are drawn from; a number, or text such
        as "32MiB".
      hold_back: elements behind this source that may still be buffered when it has emitted more: the depth of maps,
        batches and prefetches, in elements of this source. Records become "read" only when so many more elements have
        been emitted, so that a killed tf.data worker (with `resume`: a killed trainer) loses none; what it costs is
        that these come again then. None: as many as 4 GiB of records, but from 64 to 1024 batches with `batch_size`,
        else from 16384 to 262144 records. With a number TensorFlow adds
        no prefetch of its own, which nobody has counted. Nothing bounds `prefetch(tf.data.AUTOTUNE)` but memory: before
        `distribute` give it a number where pauses of the trainer are more than 1000 steps apart.

      parse_threads: threads that work on a batch with `parse`, 1 to 256; None: as many as the machine has cores, up to
        16.

    Raises InvalidArgumentError naming what cannot be right.
    """

    _: KW_ONLY
    readahead_bytes: int | str = "32MiB"
    hold_back: int | None = None
    parse_threads: int | None = None

    def __post_init__(self) -> None:
        size("readahead_bytes", self.readahead_bytes, 1)
        if self.hold_back is not None:
            check_integer("hold_back", self.hold_back, 0, _MAX_HOLD_BACK)
        if self.parse_threads is not None:
            check_integer("parse_threads", self.parse_threads, 1, _MAX_PARSE_THREADS)


@dataclass(frozen=True, slots=True, repr=False)
class FirstUse(OptionGroup):
    """What to do with files that nobody has used before. `tfquiver.dataset(..., first_use=tfquiver.FirstUse(...))`.

    Args:
      name: name of the data set, for display; None: taken from `source`. Files that are known keep the name they have.
      cut: sizes of shards; None: 0.5, 2 and 8 MiB. Files cut in another way are another data set.
      progress: called with (bytes done, bytes in all) while the files are scanned; None: a progress bar on a terminal.

    Raises InvalidArgumentError naming what cannot be right.
    """

    _: KW_ONLY
    name: str | None = None
    cut: CutPolicy | None = None
    progress: Progress | None = None

    def __post_init__(self) -> None:
        check_name("name", self.name)
        if self.cut is not None and not isinstance(self.cut, CutPolicy):
            raise errors.InvalidArgumentError(f"cut={self.cut!r}: must be a tfquiver.CutPolicy")
        if self.progress is not None and not callable(self.progress):
            raise errors.InvalidArgumentError(f"progress={self.progress!r}: must be a function of two numbers")


@dataclass(frozen=True, slots=True, repr=False)
class Connection(OptionGroup):
    """How servers are reached. `tfquiver.dataset(..., connection=tfquiver.Connection(...))`.

    Args:
      auth_token_file: file whose first line is the cluster's token; None: the one that the environment's
        TFQUIVER_AUTH_TOKEN_FILE names, if it names one.
      connect_timeout_s: seconds until a server that does not answer is an error when the data set is made: one that is
        just starting is waited for. A warning says so after two seconds, with the address and the reason.
      reconnect_timeout_s: seconds that an iterator waits for a node that is gone before it fails.

    Raises InvalidArgumentError naming what cannot be right.
    """

    _: KW_ONLY
    auth_token_file: str | os.PathLike[str] | None = None
    connect_timeout_s: float = 30.0
    reconnect_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        if self.auth_token_file is not None and not isinstance(self.auth_token_file, str | os.PathLike):
            raise errors.InvalidArgumentError(f"auth_token_file={self.auth_token_file!r}: must be the path of a file")
        check_seconds("connect_timeout_s", self.connect_timeout_s)
        check_seconds("reconnect_timeout_s", self.reconnect_timeout_s)


def check_group(name: str, value: object, kind: type[OptionGroup]) -> None:
    """Raises InvalidArgumentError where `value`, the argument of that name, is of another kind."""
    if not isinstance(value, kind):
        raise errors.InvalidArgumentError(f"{name}={value!r}: must be a tfquiver.{kind.__name__}(...)")
