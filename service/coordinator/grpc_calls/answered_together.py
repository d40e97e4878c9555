"""Which replies of a stream wait for others, so that what was asked in one message is answered in one. Pure.

To send a message costs the coordinator, and whoever takes it, as much as what most calls do: a third of what a thousand
nodes made its loop do was that. An acknowledgement is answered when the log is on the disk, a few milliseconds later
than a heartbeat that came with it, and nobody waits for either. Leases wait for nothing: readers wait for them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

WITHIN_S = 0.25
Later = Callable[[float, Callable[[], None]], Callable[[], None]]  # calls after so many seconds; returns what undoes it


class AnsweredTogether:
    """Args:
    go: what waited is to be sent, whatever it waited for.
    """

    def __init__(self, go: Callable[[], None], later: Later) -> None:
        self._go, self._later = go, later
        self._awaited = set[int]()  # acknowledgements that came with other calls
        self._undo: Callable[[], None] | None = None

    @property
    def waits(self) -> bool:
        """What is answered now is to be sent with what comes."""
        return bool(self._awaited)

    def asked(self, acks: Collection[int]) -> None:
        """The numbers of the acknowledgements of a message that has other calls, too."""
        if acks:
            self._awaited.update(acks)
            self._undo = self._undo or self._later(WITHIN_S, self._late)

    def over(self, number: int) -> None:
        """That call is answered, or nobody waits for it any more."""
        if self._awaited:
            self._awaited.discard(number)
            if not self._awaited:
                self.close()

    def close(self) -> None:
        if self._undo:
            self._undo()
            self._undo = None

    def _late(self) -> None:
        self._undo = None
        self._awaited.clear()
        self._go()
