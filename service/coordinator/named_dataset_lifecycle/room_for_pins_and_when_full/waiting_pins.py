"""Pins that wait for room: which of them are asked for at a look, so that thousands of them cost it little. Pure.

To ask for a pin's room takes a millisecond: its digest is looked at, and the settings of all others. Where what is left
now is plainly less than it was refused for, it is asked for once in a while only, so that what is told of it has newer
figures; and no look asks for more than so many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tfquiver.service.coordinator.named_dataset_lifecycle import lifecycle
from tfquiver.service.coordinator.named_dataset_lifecycle.lifecycle import Life
from tfquiver.service.coordinator.named_dataset_lifecycle.table import NamedTable

AGAIN_S = 10.0  # a room that there was not, asked for again
MOST_ASKED = 100  # at one look


@dataclass(slots=True)
class _Refused:
    digest_id: bytes  # of its newest version then
    wanted_bytes: int
    asked_s: float
    not_before_s: float


class WaitingPins:
    """`left_bytes`: what is left for a data set's pin now, by its digest id; cheap."""

    def __init__(self, table: NamedTable, left_bytes: Callable[[bytes], int]) -> None:
        self._table, self._left_bytes = table, left_bytes
        self._refused: dict[str, _Refused] = {}  # by life
        self._short: dict[str, None] = {}  # lives whose newest version could not have the room that it wants
        self._asked = 0

    def look_begins(self) -> None:
        self._asked = 0

    @property
    def has_more(self) -> bool:
        """This look has asked for as many as it may; there may be others."""
        return self._asked >= MOST_ASKED

    def may_ask(self, life: Life, now: float) -> bool:
        """Whether its room is asked for at this look; where it is not, for want of room, it is still short of it."""
        refused = self._refused.get(life.life)
        if refused is None or refused.digest_id != life.digest_id:
            return not self.has_more
        if now < refused.not_before_s:
            return False
        is_told_anew = now - refused.asked_s >= lifecycle.FIGURES_S
        if refused.wanted_bytes > self._left_bytes(life.digest_id) and not is_told_anew:
            refused.not_before_s = now + AGAIN_S
            self._short[life.life] = None
            return False
        return not self.has_more

    def asks(self, life: Life) -> None:
        """Its room is asked for, or given back, now."""
        self._short.pop(life.life, None)
        self._asked += 1

    def refused(self, life: Life, wanted_bytes: int, now: float) -> None:
        self._refused[life.life] = _Refused(life.digest_id, wanted_bytes, now, now + AGAIN_S)
        self._short[life.life] = None

    def over(self, life: Life) -> None:
        """It has its room, or wants none any more."""
        self._refused.pop(life.life, None)
        self._short.pop(life.life, None)

    def is_short(self) -> bool:
        """Some pin was refused that is wanted still, and would be set if there were room."""
        while self._short:  # asked for each data set: no further than to the first such
            one, _ = self._short.popitem()
            if (life := self._table.of_life(one)) is not None and lifecycle.wants_pin(life):
                self._short[one] = None
                return True
        return False

    def take_short(self) -> list[str]:
        """Those that wait, by their lives: until they have asked again none is short."""
        waiting, self._short = list(self._short), {}
        return waiting

    def may_have_room(self, lives: list[str]) -> None:
        """These ask again at once."""
        for one in lives:
            if (refused := self._refused.get(one)) is not None:
                refused.not_before_s = 0.0
