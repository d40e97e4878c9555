"""Durations as people write them: 90, 90s, 15m, 8h, 2d."""

from __future__ import annotations

import argparse
import re

from tfquiver.plain_text import shortened

_UNIT_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_WRITTEN = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd]?)")
MOST_S = 3650 * 86400.0


def seconds(text: str) -> float:
    """Of a flag. Raises ArgumentTypeError."""
    found = _WRITTEN.fullmatch(text)
    made = float(found[1]) * _UNIT_S[found[2]] if found else 0.0
    if not 0 < made <= MOST_S:
        raise argparse.ArgumentTypeError(f"{shortened(text)} is not a duration: write 90s, 15m, 8h or 2d")
    return made
