"""Sizes as people write them, in flags and arguments. Pure."""

from __future__ import annotations

import re
from decimal import Decimal

from tfquiver import errors
from tfquiver.plain_text import shortened

_MOST_BYTES = (1 << 60) - 1
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


def is_size(text: str) -> bool:
    """For flags.register_validator."""
    try:
        parse_bytes(text)
    except errors.InvalidArgumentError:
        return False
    return True
