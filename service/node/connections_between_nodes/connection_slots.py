"""Which connection gives way when there is no place for another. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Protocol, TypeVar


class Slot(Protocol):
    @property
    def address(self) -> str:
        """The host at its other end."""

    @property
    def known(self) -> bool:
        """Whether it has shown who it is."""

    @property
    def idle_since_s(self) -> float | None:
        """When it was last about something; None: it is now."""


S = TypeVar("S", bound=Slot)


def to_give_way(slots: Collection[S]) -> S | None:
    """One that is about nothing: of the host that has most of them, strangers first, the longest idle. None: all are
    busy. A host that takes all the places loses its own."""
    counts = Counter(slot.address for slot in slots)
    idle = [slot for slot in slots if slot.idle_since_s is not None]
    return min(idle, key=lambda slot: (-counts[slot.address], slot.known, slot.idle_since_s or 0.0), default=None)
