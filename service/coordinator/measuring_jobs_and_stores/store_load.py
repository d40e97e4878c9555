"""How the object store is just now. Pure values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoreLoad:
    """`s_per_byte`: how long a byte takes from the store just now, of the time in which anybody reads there;
    `request_s_per_byte`: of the time of requests, those at the same time each. None: nobody reads there, or not enough.
    """

    s_per_byte: float | None = None
    spare_bytes_per_s: float | None = None  # None: no limit is known
    request_s_per_byte: float | None = None
