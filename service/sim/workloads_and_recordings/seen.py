"""What is told of the jobs of a running cluster, and what is remembered of each. Pure values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dataset:
    digest: str  # hexadecimal
    name: str
    size_bytes: int  # of records
    disk_bytes: int  # 0: not known
    shards: int
    records: int


@dataclass(frozen=True, slots=True)
class Seen:
    """One job over one data set, as told at one moment. Bytes since the coordinator first heard of it."""

    job: str
    dataset: Dataset
    reads: bool  # somebody does, now
    idle_s: float = 0.0  # else: for so long nobody has
    read_bytes: int = 0
    missed_bytes: int = 0
    ideal_bytes_per_s: float | None = None
    stall_share: float = 0.0  # of the readers' time, lately
    accelerators: int = 0  # as its training processes say; 0: none does
    window_bytes: int = 0  # the most that its readers have asked for at a time; 0: not known


@dataclass(slots=True)
class Visit:
    """From when it was first seen to read until it had been away for `GONE_S`."""

    job: str
    digest: str
    began_s: float
    began_before: bool
    last: Seen
    seen_s: float  # when it was last known to read
    perhaps_s: float  # or may have: by a coordinator that was restarted since
    read_bytes: int = 0
    missed_bytes: int = 0
    ideal_bytes_per_s: float = 0.0
    accelerators: int = 1  # the most it ever had
    window_bytes: int = 0  # the most that it ever had
    ended_s: float | None = None
    forgotten: bool = False  # nothing was heard of it since its coordinator was restarted
