"""What computing derived data sets has taken, as those say who have done it. Pure."""

from __future__ import annotations

from tfquiver import errors
from tfquiver.proto.tfquiver.v1.derived_datasets_pb2 import DerivedCost

_MOST_US, _MOST_BYTES = 1 << 50, 1 << 60  # 35 years of one processor; all of a build that anybody makes is below


def check(cost: DerivedCost, rows: int) -> None:
    """Of a report of so many rows. Raises InvalidArgumentError."""
    if cost.rows > rows:
        raise errors.InvalidArgumentError(f"cost.rows: {cost.rows}; the report has {rows}")
    if max(cost.cpu_us, cost.busy_us) > _MOST_US or cost.read_us > cost.cpu_us:
        raise errors.InvalidArgumentError(
            f"cost: {cost.cpu_us} us, of these {cost.read_us} to read, in {cost.busy_us} us cannot be"
        )
    if max(cost.input_bytes, cost.made_bytes) > _MOST_BYTES:
        raise errors.InvalidArgumentError(f"cost: {cost.input_bytes} and {cost.made_bytes} bytes cannot be")


def added(one: DerivedCost, other: DerivedCost) -> DerivedCost:
    return DerivedCost(
        rows=one.rows + other.rows,
        cpu_us=min(_MOST_US, one.cpu_us + other.cpu_us),
        read_us=min(_MOST_US, one.read_us + other.read_us),
        busy_us=min(_MOST_US, one.busy_us + other.busy_us),
        input_bytes=min(_MOST_BYTES, one.input_bytes + other.input_bytes),
        made_bytes=min(_MOST_BYTES, one.made_bytes + other.made_bytes),
    )
