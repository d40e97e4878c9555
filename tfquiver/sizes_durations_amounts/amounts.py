"""Bytes, rates and numbers of things as people read them. Pure."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def of_bytes(amount: float) -> str:
    """`154 GB`, `1.4 TB`, in at most seven characters: powers of 1000. So all sizes are said to people."""
    at = 0
    while amount >= 999.5 and at < len(_UNITS) - 1:
        amount, at = amount / 1000, at + 1
    return f"{amount:.{int(at > 0 and amount < 99.95)}f} {_UNITS[at]}"


def apart(*amounts: int) -> list[str]:
    """Each as `of_bytes` says it; all of them to the byte where two that differ would be called the same."""
    said = list(map(of_bytes, amounts))
    return said if len(set(said)) == len(set(amounts)) else [f"{amount} bytes" for amount in amounts]


def many(count: float, one: str, several: str = "") -> str:
    """`1 shard`, `2 shards`; with more words than one they are given: `many(n, "node is", "nodes are")`."""
    return f"{count} {one if count == 1 else several or one + 's'}"


def of_rate(amount: float) -> str:
    return f"{of_bytes(amount)}/s"
