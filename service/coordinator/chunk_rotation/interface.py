"""What a rotation is: which chunks of a data set are loaded and evicted, and what a session may read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.chunk_use import Menu


@dataclass(frozen=True, slots=True)
class Decision:
    """Orders as they stand now: each is repeated, asked for again, until it has been carried out.

    A chunk that is in neither and has resident shards stays as it is.
    """

    load: tuple[int, ...] = ()  # most urgent first; their shards are to be made resident
    urgent: frozenset[int] = frozenset()  # of `load`: some session waits; the others take spare store bandwidth only
    evict: tuple[int, ...] = ()  # what is resident of these is to go


class Rotation(Protocol):
    """Works from a Board that others keep. Not thread-safe; `now` is in seconds and never falls.

    Bounds that each one keeps: the bytes admitted and those still to be evicted never exceed the allocation together;
    no chunk is evicted while a session reads it, unless its timeout is over; every session that reads on is given
    something to read in bounded time.
    """

    def decide(self, now: float) -> Decision:
        """Ask again after every change of the board, and now and then."""

    def menu(self, session: str) -> Menu:
        """For a session that is open on the board. Good until `version` changes."""

    def keeps(self, chunk: int) -> bool:
        """Whether shards of this chunk that are fetched now are to be kept."""

    @property
    def version(self) -> int:
        """Changes whenever a menu may have."""
