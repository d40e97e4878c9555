"""When epochs were read, as far as looking every ten seconds tells."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

MOST_ENDED = 2048
MOST_OPEN = 2048
_LOOK_S = 10.0
_GAP_S = 60.0  # so long nobody read it: then that was a stay of its own
_LONGEST_NAME = 200


# Of a session: its number, job, data set (its name, and its digest id), epoch, and how much of it is read.
Seen = tuple[int, str, str, bytes, int, float]


@dataclass(slots=True)
class Epoch:
    job: str
    dataset: str  # its name, as it was last seen
    digest_id: bytes
    epoch: int
    began_s: float
    ended_s: float  # when it was last seen to be read
    done: float  # of it, read


class Epochs:
    def __init__(self) -> None:
        self._open: dict[int, Epoch] = {}
        self._ended: deque[Epoch] = deque(maxlen=MOST_ENDED)
        self._looked_s = 0.0

    def look(self, read: Iterable[Seen], unix_s: float) -> None:
        """Of each session that somebody reads now."""
        if unix_s < self._looked_s:
            self._set_back(unix_s)
        self._looked_s = unix_s
        for number, job, dataset, digest_id, epoch, done in read:
            found = self._open.get(number)
            if found is None:
                if len(self._open) >= MOST_OPEN:
                    continue
                found = Epoch(job[:_LONGEST_NAME], dataset[:_LONGEST_NAME], digest_id, epoch, unix_s, unix_s, done)
                self._open[number] = found
            found.ended_s, found.done = unix_s, done
        for number in [number for number, one in self._open.items() if one.ended_s < unix_s - _GAP_S]:
            self._ended.append(self._open.pop(number))

    def _set_back(self, unix_s: float) -> None:
        """The clock was: what is later is of no time that there has been."""
        self._ended = deque((one for one in self._ended if one.began_s <= unix_s), MOST_ENDED)
        for one in (*self._ended, *self._open.values()):
            one.began_s, one.ended_s = min(one.began_s, unix_s), min(one.ended_s, unix_s)

    def told(self, since_s: float, most: int, called: Callable[[bytes], str] = lambda _: "") -> list[dict[str, Any]]:
        """Those that were read last: one that is read for hours is among them, however many have begun since. Half of
        the time between two looks is taken to be theirs on both sides. `called`: the name of a data set now; empty: it
        is not registered any more."""
        every = [*self._ended, *self._open.values()]
        shown = (one for one in every if one.ended_s >= since_s)
        newest = sorted(shown, key=lambda one: (one.ended_s, one.began_s))[-most:]
        return [
            {
                "job": one.job, "dataset": called(one.digest_id)[:_LONGEST_NAME] or one.dataset, "epoch": one.epoch,
                "began_s": round(one.began_s - _LOOK_S / 2),
                "ended_s": round(one.ended_s + _LOOK_S / 2), "done": round(one.done, 4),
            }
            for one in newest
        ]  # fmt: skip
