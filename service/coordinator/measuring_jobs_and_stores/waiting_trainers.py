"""How many iterators in trainers wait for an element of tf.data service, as their processes say. Pure."""

from __future__ import annotations

from tfquiver.clock import Clock

KEPT_S = 12.0  # a process says it again every three seconds or so
# Of more those of which nobody has heard for longest make room: what anybody can make up takes no more.
MOST_KEYS, MOST_OF_A_KEY = 1000, 256


class WaitingTrainers:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Session key -> pipeline -> port, how many, and until when that holds. What was said last is last, in both.
        self._said: dict[str, dict[str, tuple[int, int, float]]] = {}

    def say(self, session_key: str, pipeline: str, port: int, iterators: int) -> None:
        now = self._clock.now()
        said = {
            one: what for one, what in self._said.pop(session_key, {}).items() if what[-1] > now and one != pipeline
        }
        if iterators:
            said[pipeline] = port, iterators, now + KEPT_S
        if not said:
            return
        self._said[session_key] = said
        if len(said) > MOST_OF_A_KEY:
            del said[next(iter(said))]
        if len(self._said) > MOST_KEYS:
            del self._said[next(iter(self._said))]

    def of(self, session_key: str) -> dict[int, int]:
        """By the port of their dispatcher."""
        found, now = dict[int, int](), self._clock.now()
        for port, iterators, until in self._said.get(session_key, {}).values():
            if until > now:
                found[port] = found.get(port, 0) + iterators
        return found
