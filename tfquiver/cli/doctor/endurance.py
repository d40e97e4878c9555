"""Whether a disk lasts under what the cache writes: by the disk's own count, else by how much is written a day. Pure.

SSDs are warranted for a number of drive writes a day: 0.3 for what is made for laptops and for reading, 1 to 3 for what
is made for servers that write. A cache that a data set does not fit into writes most of it in every epoch.
"""

from __future__ import annotations

from dataclasses import dataclass

from tfquiver.cli.doctor.finding import Finding, ok, skip, warn
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes

WHAT = "SSD wear"
MOST_USED = 0.8
LEAST_DAYS_LEFT = 365
DRIVE_WRITES_A_DAY = 0.3
LEAST_COUNTED_S = 86_400  # the first hours of a cache are its filling
_LEAST_USED = 0.02  # whole per cents: of fewer, no time left can be told
_WRITE_LESS = (
    "write less: a data set that does not fit is written about once an epoch; with `tfquiver dataset set-cache NAME "
    "BYTES` a part of it is, once"
)


@dataclass(frozen=True, slots=True)
class Wear:
    """What a disk says of itself. `used`: of the writes it is rated for, 1 is all; `failing`: why it is, if it is."""

    used: float
    on_days: float | None = None  # powered on so far
    failing: str = ""


@dataclass(frozen=True, slots=True)
class Disk:
    """`name`: as the kernel's; `unknown`: why there is no `wear`; `virtual`: nobody here knows what it is made of."""

    name: str
    size_bytes: int
    wear: Wear | None = None
    unknown: str = ""
    virtual: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """By the cache, onto that disk."""

    size_bytes: int
    seconds: float

    @property
    def a_day(self) -> float:
        return self.size_bytes / self.seconds * 86_400


def judge(disk: Disk, written: Written | None) -> Finding:
    """`written` None: nobody has counted."""
    if disk.wear is not None:
        return _by_its_count(disk.name, disk.wear, _said(written))
    if disk.virtual:
        why = f"cannot be seen from here: {disk.name} is the disk of a virtual machine{_said(written)}"
        do = "nothing, where a provider looks after its disks; else look on the machine that this one runs on"
        return skip(WHAT, why, do)
    if written is None or written.seconds < LEAST_COUNTED_S:
        counted = "" if written is None else f", but for {written.seconds / 3600:.0f} h"
        why = f"not known yet: {disk.name}: {disk.unknown}; what the cache writes is not counted for a day{counted}"
        do = f"look again after a day of training; `sudo smartctl -a /dev/{disk.name}` (smartmontools) says it at once"
        return skip(WHAT, why, do)
    share = written.a_day / max(disk.size_bytes, 1)
    times = f"{share:.2g} times what {disk.name} holds"
    said = f"the cache writes {of_bytes(int(written.a_day))} a day, {times} ({disk.unknown})"
    if share > DRIVE_WRITES_A_DAY:
        do = f"use an SSD that is made for {share:.1f} drive writes a day or more, or a larger one; or {_WRITE_LESS}"
        return warn(WHAT, f"{said}; many SSDs are made for {DRIVE_WRITES_A_DAY:g} times a day", do)
    return ok(WHAT, f"{said}; SSDs are made for {DRIVE_WRITES_A_DAY:g} times a day or more")


def _said(written: Written | None) -> str:
    if written is None or written.seconds < LEAST_COUNTED_S:
        return ""
    return f"; the cache writes {of_bytes(int(written.a_day))} a day"


def _by_its_count(name: str, wear: Wear, more: str) -> Finding:
    if wear.failing:
        return warn(WHAT, f"{name} says that {wear.failing}{more}", "replace it: what is cached are copies only")
    said = f"{wear.used:.0%} of what may be written to {name} in its life has been{more}"
    if wear.used >= MOST_USED:
        return warn(WHAT, said, f"have another one at hand: what is cached are copies only; and {_WRITE_LESS}")
    if wear.on_days and wear.used >= _LEAST_USED:
        left_days = wear.on_days * (1 - wear.used) / wear.used
        said += f", in {many(round(wear.on_days), 'day')}"
        if left_days < LEAST_DAYS_LEFT:
            return warn(WHAT, f"{said}: the rest is for {many(round(left_days), 'day')}", _WRITE_LESS)
    return ok(WHAT, said)
