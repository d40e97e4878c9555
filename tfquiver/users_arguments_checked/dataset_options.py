"""What `tfquiver.dataset` was asked for, as it travels in the graph."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace

from tfquiver import errors
from tfquiver.users_arguments_checked.checks import absolute, check_flag, check_integer, check_name, size
from tfquiver.users_arguments_checked.option_groups import Connection, Reading, check_group
from tfquiver.users_arguments_checked.orders import FILES, Deterministic, Order, Replay, Shuffled
from tfquiver.users_arguments_checked.sampled import Sampled

NO_SEED = 0
_SEED_OF_ZERO = (1 << 62) + 1  # what seed=0 travels as, since 0 means that there is none
_MAX_BATCH = 1 << 24  # as the op takes it (ops/core/told_by_python/options.cc)
_UNSET = -1
# What stands between the source and the training step: parallel maps, what tf.data's client asks for (16 elements), and
# prefetches. `prefetch(AUTOTUNE)` doubles its buffer whenever a burst of steps has emptied it, so that pauses (an
# evaluation, a checkpoint) every so many steps leave about so many batches in it. Memory bounds it, too.
_MOST_BATCHES, _MOST_RECORDS = 1024, 1 << 18
_LEAST_BATCHES, _LEAST_RECORDS = 64, 1 << 14
_MOST_BUFFERED_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What the op is told. `batch_size` 0: single records; `seed` 0: drawn anew each epoch."""

    batch_size: int
    drop_remainder: bool
    shuffle_bytes: int
    readahead_bytes: int
    seed: int
    job: str
    hold_back: int
    reconnect_ms: int
    parse_threads: int = 0  # 0: the op chooses
    files: bool = False
    deterministic: bool = False
    homogeneous: bool = False
    with_position: bool = False
    order_log: str = ""
    replay: str = ""
    joins: bool = False  # the epochs of a stream, which others read, too
    sampling: str = ""  # names the scheme and what it was asked for

    @property
    def hold_back_given(self) -> bool:
        """False: it is still to be taken from the data (`of_data`)."""
        return self.hold_back != _UNSET

    def of_data(self, records: int, size_bytes: int) -> SourceOptions:
        """For a data set of so many records and bytes: what was not given and depends on it."""
        if self.hold_back_given:
            return self
        return replace(self, hold_back=default_hold_back(self.batch_size, records, size_bytes))

    def for_op(self, endpoint: str) -> dict[str, object]:
        """`endpoint`: the short name under which the process knows its node."""
        told = {"endpoint": endpoint, **asdict(self)}
        for rare in ("files", "joins", "parse_threads", "sampling"):
            if not told[rare]:
                del told[rare]
        return told


def checked_options(
    batch_size: int | None = None,
    drop_remainder: bool = False,
    order: Order = Shuffled(),
    job: str | None = None,
    reading: Reading = Reading(),
    connection: Connection = Connection(),
    stream: str | None = None,
) -> SourceOptions:
    """The arguments of `tfquiver.dataset` of these names. Raises InvalidArgumentError naming the wrong one."""
    if batch_size is not None:
        check_integer("batch_size", batch_size, 1, _MAX_BATCH)
    check_flag("drop_remainder", drop_remainder)
    if drop_remainder and batch_size is None:
        raise errors.InvalidArgumentError("drop_remainder=True needs batch_size=")
    check_name("job", job)
    check_name("stream", stream)
    check_group("reading", reading, Reading)
    check_group("connection", connection, Connection)
    options = SourceOptions(
        batch_size=int(batch_size or 0),
        drop_remainder=drop_remainder,
        shuffle_bytes=0,
        readahead_bytes=size("readahead_bytes", reading.readahead_bytes, 1),
        seed=NO_SEED,
        job=job or stream or "",  # the op calls it after its session key, which is not hashed
        hold_back=_UNSET if reading.hold_back is None else int(reading.hold_back),
        reconnect_ms=int(connection.reconnect_timeout_s * 1000),
        parse_threads=int(reading.parse_threads or 0),
    )
    options = _in_order(options, order)
    if stream is None:
        return options
    if options.files or options.order_log or options.replay or options.sampling:
        raise errors.InvalidArgumentError(
            'stream=: not with order="files", log_dir= or Replay(), which one reader reads, nor with sampling schemes'
        )
    return replace(options, joins=True)


def _in_order(options: SourceOptions, order: object) -> SourceOptions:
    if order == FILES:
        return replace(options, files=True)
    if not isinstance(order, Shuffled | Deterministic | Replay | Sampled):
        raise errors.InvalidArgumentError(
            f'order={order!r}: must be "files", or a tfquiver.Shuffled(...), Deterministic(...) or Replay(...), or a '
            "sampling scheme such as tfquiver.Weighted(...)"
        )
    options = replace(options, shuffle_bytes=size("shuffle_bytes", order.shuffle_bytes, 0))
    if isinstance(order, Sampled):
        hashed = hashlib.sha256(order.told_apart_by().encode()).hexdigest()[:16]
        return replace(options, seed=_seed(order.seed), sampling=f"{order.asked()[0]}:{hashed}")
    if isinstance(order, Replay):
        return replace(options, replay=absolute("log", order.log))
    if isinstance(order, Deterministic):
        return replace(options, seed=_seed(order.seed), deterministic=True, with_position=order.with_position)
    return replace(
        options,
        seed=_seed(order.seed),
        homogeneous=order.homogeneous,
        order_log=absolute("log_dir", order.log_dir),
    )


def _seed(seed: int | None) -> int:
    return NO_SEED if seed is None else int(seed) or _SEED_OF_ZERO


def default_hold_back(batch_size: int, records: int, size_bytes: int) -> int:
    """In elements: 4 GiB of records, but from 64 to 1024 batches, or 16384 to 262144 records (`batch_size` 0)."""
    most, least = (_MOST_BATCHES, _LEAST_BATCHES) if batch_size else (_MOST_RECORDS, _LEAST_RECORDS)
    element_bytes = max(1, size_bytes // max(1, records)) * max(1, batch_size)
    return min(most, max(least, _MOST_BUFFERED_BYTES // element_bytes))
