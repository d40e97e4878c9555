"""Sizes as people write them, in flags and arguments. Pure."""

from __future__ import annotations

import re
from decimal import Decimal

from tfquiver import errors
from tfquiver.plain_text import shortened
from tfquiver.sizes_durations_amounts.amounts import many

_MOST_BYTES = (1 << 60) - 1
_LEAST_ROOM_BYTES = 1 << 16  # in less hardly a shard has room
_UNITS = {"": 1, "B": 1, "kB": 1000}  # kB is what we print
for _power, _letter in enumerate("KMGTP", start=1):
    _UNITS |= {_letter: 1024**_power, f"{_letter}iB": 1024**_power, f"{_letter}B": 1000**_power}


def parse_bytes(text: str) -> int:
    """`"10GiB"`, `"500MB"`, `"4096"` as bytes. Raises InvalidArgumentError naming the text."""
    match = re.fullmatch(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([A-Za-z]*)\s*", text)
    if not match or match[2] not in _UNITS:
        known = next((unit for unit in _UNITS if match and unit.lower() == match[2].lower()), "")
        meant = f"write {match[1]}{known}" if match and known else "write for example 500MB, 10GiB or 4096"
        raise errors.InvalidArgumentError(f"not a size: {shortened(text)}; {meant}")
    size = int(Decimal(match[1]) * _UNITS[match[2]])
    if size > _MOST_BYTES:
        raise errors.InvalidArgumentError(f"a size of {shortened(text)} is more than any disk has")
    return size


def of_flag(flag: str, text: str) -> int:
    """As `parse_bytes`. Raises InvalidArgumentError that names the flag, too."""
    try:
        return parse_bytes(text)
    except errors.InvalidArgumentError as error:
        raise errors.InvalidArgumentError(f"{flag}: {error}") from error


def too_little_room(text: str) -> str:
    """Of a size that is to have shards in it: why it cannot be meant, and what to write; "": it can, or is plainly 0.
    Raises InvalidArgumentError as `parse_bytes` does."""
    if (size := parse_bytes(text)) >= _LEAST_ROOM_BYTES or not re.search("[1-9]", text):
        return ""
    number = text.strip()
    if number[-1].isdecimal():  # a unit was forgotten
        return f"{number} is {many(size, 'byte')}: write {number}GB or {number}MB"
    return f"in {number} no shard has room: the least is {_LEAST_ROOM_BYTES >> 10}KiB"


def is_size(text: str) -> bool:
    """For flags.register_validator."""
    try:
        parse_bytes(text)
    except errors.InvalidArgumentError:
        return False
    return True
