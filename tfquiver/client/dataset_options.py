"""What `tfquiver.dataset` is told, checked, and as it travels in the graph."""

from __future__ import annotations

import numbers
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tfquiver import errors, sizes

NO_SEED = 0
_SEED_OF_ZERO = (1 << 62) + 1  # what seed=0 travels as, since 0 means that there is none
_MAX_BYTES = 1 << 50
_MAX_BATCH = 1 << 24  # as the op takes it (ops/core/options.cc)
_MAX_SEED = (1 << 63) - 1
_MAX_HOLD_BACK = 1 << 31
_MAX_NAME_BYTES = 256
_MAX_PATH_BYTES = 4096
_MAX_WAIT_S = 24 * 3600
_UNSET = -1
# What stands between the source and the training step: parallel maps, what tf.data's client asks for (16 elements), and
# prefetches. `prefetch(AUTOTUNE)` doubles its buffer whenever a burst of steps has emptied it, so that pauses (an
# evaluation, a checkpoint) every so many steps leave about so many batches in it. Memory bounds it, too.
_MOST_BATCHES, _MOST_RECORDS = 1024, 1 << 18
_LEAST_BATCHES, _LEAST_RECORDS = 64, 1 << 14
_MOST_BUFFERED_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Checked arguments that travel in the graph. `batch_size` 0: single records; `seed` 0: drawn anew each epoch."""

    batch_size: int
    drop_remainder: bool
    shuffle_bytes: int
    readahead_bytes: int
    seed: int
    job: str
    hold_back: int
    reconnect_ms: int
    deterministic: bool = False
    homogeneous: bool = False
    with_position: bool = False
    order_log: str = ""
    replay: str = ""

    def of_data(self, records: int, size_bytes: int) -> SourceOptions:
        """For a data set of so many records and bytes: what was not given and depends on it."""
        if self.hold_back != _UNSET:
            return self
        return replace(self, hold_back=default_hold_back(self.batch_size, records, size_bytes))

    def for_op(self, endpoint: str) -> dict[str, object]:
        """`endpoint`: the short name under which the process knows its node."""
        return {"endpoint": endpoint, **asdict(self)}


def checked_options(
    batch_size: int | None,
    drop_remainder: bool,
    shuffle_bytes: int | str,
    readahead_bytes: int | str,
    seed: int | None,
    job: str | None,
    hold_back: int | None,
    reconnect_timeout_s: float,
    order: str | None = None,
    with_position: bool = False,
    homogeneous: bool = False,
    order_log: str | os.PathLike[str] | None = None,
    replay: str | os.PathLike[str] | None = None,
) -> SourceOptions:
    """The arguments of `tfquiver.dataset` of these names. Raises InvalidArgumentError naming the wrong one."""
    if batch_size is not None:
        check_integer("batch_size", batch_size, 1, _MAX_BATCH)
    if not isinstance(drop_remainder, bool):
        raise errors.InvalidArgumentError(f"drop_remainder={drop_remainder!r}: must be True or False")
    if drop_remainder and batch_size is None:
        raise errors.InvalidArgumentError("drop_remainder=True needs batch_size=")
    if seed is not None:
        check_integer("seed", seed, 0, _MAX_SEED)
    if hold_back is not None:
        check_integer("hold_back", hold_back, 0, _MAX_HOLD_BACK)
    _check_order(order, with_position, homogeneous, order_log, replay, seed)
    check_name("job", job)
    check_seconds("reconnect_timeout_s", reconnect_timeout_s)
    return SourceOptions(
        batch_size=int(batch_size or 0),
        drop_remainder=drop_remainder,
        shuffle_bytes=size("shuffle_bytes", shuffle_bytes, 0),
        readahead_bytes=size("readahead_bytes", readahead_bytes, 1),
        seed=NO_SEED if seed is None else int(seed) or _SEED_OF_ZERO,
        job=job or "",  # the op calls it after its session key, which is not hashed
        hold_back=_UNSET if hold_back is None else int(hold_back),
        reconnect_ms=int(reconnect_timeout_s * 1000),
        deterministic=order == "deterministic",
        homogeneous=homogeneous,
        with_position=with_position,
        order_log=_absolute("order_log", order_log),
        replay=_absolute("replay", replay),
    )


def _check_order(
    order: str | None, with_position: bool, homogeneous: bool, order_log: object, replay: object, seed: int | None
) -> None:
    if order not in (None, "deterministic"):
        raise errors.InvalidArgumentError(f'order={order!r}: must be "deterministic" or None')
    for name, flag in (("with_position", with_position), ("homogeneous", homogeneous)):
        if not isinstance(flag, bool):
            raise errors.InvalidArgumentError(f"{name}={flag!r}: must be True or False")
    if order == "deterministic" and seed is None:
        raise errors.InvalidArgumentError('order="deterministic" needs seed=: the order is a function of it')
    if order == "deterministic" and homogeneous:
        raise errors.InvalidArgumentError('homogeneous=True: not with order="deterministic"')
    if order == "deterministic" and (order_log is not None or replay is not None):
        raise errors.InvalidArgumentError(
            'order_log= and replay=: not with order="deterministic", of which the seed says it all'
        )
    if with_position and order != "deterministic":
        raise errors.InvalidArgumentError('with_position=True needs order="deterministic"')
    if replay is not None and homogeneous:
        raise errors.InvalidArgumentError("homogeneous=True: not with replay=, which has the order of its log")


def _absolute(name: str, path: str | os.PathLike[str] | None) -> str:
    if path is None:
        return ""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str) or not os.fspath(path):
        raise errors.InvalidArgumentError(f"{name}={path!r}: must be a path")
    return str(Path(path).expanduser().absolute())


def default_hold_back(batch_size: int, records: int, size_bytes: int) -> int:
    """In elements: 4 GiB of records, but from 64 to 1024 batches, or 16384 to 262144 records (`batch_size` 0)."""
    most, least = (_MOST_BATCHES, _LEAST_BATCHES) if batch_size else (_MOST_RECORDS, _LEAST_RECORDS)
    element_bytes = max(1, size_bytes // max(1, records)) * max(1, batch_size)
    return min(most, max(least, _MOST_BUFFERED_BYTES // element_bytes))


def check_integer(name: str, value: object, least: int, most: int) -> int:
    if not isinstance(value, bool) and isinstance(value, numbers.Integral) and least <= int(value) <= most:
        return int(value)
    raise errors.InvalidArgumentError(f"{name}={value!r}: must be an integer from {least} to {most}")


def check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_WAIT_S:
        raise errors.InvalidArgumentError(f"{name}={value!r}: must be a number of seconds from 0 to {_MAX_WAIT_S}")


def check_name(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str) or not value or not value.isprintable():  # a lone surrogate is not printable
        raise errors.InvalidArgumentError(f"{name}={value!r}: must be text of printable characters, and not empty")
    if (size_bytes := len(value.encode())) > _MAX_NAME_BYTES:
        raise errors.InvalidArgumentError(
            f"{name}={value[:40]!r}...: {size_bytes} bytes in UTF-8; the limit is {_MAX_NAME_BYTES}"
        )


def directory(name: str, value: object) -> Path:
    """The absolute path of a directory that need not be there. Raises InvalidArgumentError naming the argument."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise errors.InvalidArgumentError(f"{name}={value!r}: must be the path of a directory, and not empty")
    if len(os.fsencode(text)) > _MAX_PATH_BYTES:
        raise errors.InvalidArgumentError(f"{name}={text[:40]!r}...: longer than {_MAX_PATH_BYTES} bytes")
    return Path(text).expanduser().absolute()


def size(name: str, value: object, least: int) -> int:
    if isinstance(value, str):
        try:
            value = sizes.parse_bytes(value)
        except errors.InvalidArgumentError as error:
            raise errors.InvalidArgumentError(f"{name}: {error}") from error
    return check_integer(name, value, least, _MAX_BYTES)
