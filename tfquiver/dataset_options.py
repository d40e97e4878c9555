"""What `tfquiver.dataset` is told, checked, and as it travels in the graph."""

from __future__ import annotations

import numbers
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from tfquiver import errors, serving

NO_SEED = 0
_SEED_OF_ZERO = (1 << 62) + 1  # what seed=0 travels as, since 0 means that there is none
_MAX_BYTES = 1 << 50
_MAX_BATCH = 1 << 24  # as the op takes it (ops/core/options.cc)
_MAX_SEED = (1 << 63) - 1
_MAX_HOLD_BACK = 1 << 31
_MAX_NAME = 256
_MAX_WAIT_S = 24 * 3600
# What ordinary pipelines keep between the source and the trainer: parallel maps, a batch, a few batches prefetched.
_HOLD_BACK_RECORDS, _HOLD_BACK_BATCHES = 2048, 16
# And between tf.data service workers and the training loop: tf.data's client asks for 16 elements, of which one worker
# may have made all, and more may be prefetched on both sides.
_BEHIND_WORKERS_RECORDS, _BEHIND_WORKERS_BATCHES = 16384, 64


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
        job=job or f"job-{uuid.uuid4().hex[:12]}",
        hold_back=int(hold_back)
        if hold_back is not None
        else (_HOLD_BACK_BATCHES if batch_size else _HOLD_BACK_RECORDS),
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


def behind_workers(batch_size: int) -> int:
    """The `hold_back`, in elements, with which a killed trainer loses nothing."""
    return _BEHIND_WORKERS_BATCHES if batch_size else _BEHIND_WORKERS_RECORDS


def check_integer(name: str, value: object, least: int, most: int) -> int:
    if not isinstance(value, bool) and isinstance(value, numbers.Integral) and least <= int(value) <= most:
        return int(value)
    raise errors.InvalidArgumentError(f"{name}={value!r}: must be an integer from {least} to {most}")


def check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MAX_WAIT_S:
        raise errors.InvalidArgumentError(f"{name}={value!r}: must be a number of seconds from 0 to {_MAX_WAIT_S}")


def check_name(name: str, value: object) -> None:
    if value is not None and not (isinstance(value, str) and 0 < len(value) <= _MAX_NAME and value.isprintable()):
        raise errors.InvalidArgumentError(f"{name}={value!r}: must be 1 to {_MAX_NAME} printable characters")


def size(name: str, value: object, least: int) -> int:
    if isinstance(value, str):
        try:
            value = serving.parse_bytes(value)
        except errors.InvalidArgumentError as error:
            raise errors.InvalidArgumentError(f"{name}: {error}") from error
    return check_integer(name, value, least, _MAX_BYTES)
