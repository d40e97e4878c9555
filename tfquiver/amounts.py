"""Bytes and rates as people read them. Pure."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def of_bytes(amount: float) -> str:
    """`154 GB`, `1.36 TB`: three digits, powers of 1000."""
    at = 0
    while amount >= 999.5 and at < len(_UNITS) - 1:
        amount, at = amount / 1000, at + 1
    return f"{amount:.3g} {_UNITS[at]}"


def of_rate(amount: float) -> str:
    return f"{of_bytes(amount)}/s"
