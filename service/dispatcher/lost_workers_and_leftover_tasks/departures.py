"""Which sessions are held open by workers for nobody: their trainers have left in mid-epoch (pure).

A trainer that stops destroys its iterator, and one that was killed is silent: the dispatcher lets go of its client,
but keeps the iteration for a while, in case another one comes for it, and the workers keep their readers. Whoever plans
by who reads need not wait for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set

from tfquiver.clock import Clock
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.task_table import TaskTable

# After its iteration was given up a session is still told of: a worker hears of that with its next heartbeat, of which
# there is one a minute at least, and only then its reader goes. Meanwhile the session would seem to be read again.
READERS_GO_S = 120.0


class Departures:
    """`left`: keys of sessions, when last looked at. Not thread-safe, but for that."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left_at: dict[str, float] = {}  # session key -> when an iteration of it was last seen to be left
        self.left: frozenset[str] = frozenset()

    def look(self, table: TaskTable, keys_of: Callable[[Set[str]], Mapping[str, Set[str]]]) -> None:
        """A key that some client reads, by whichever iteration, has not been left.

        Args:
          keys_of: data set ids -> the session keys of those that have some; asked when somebody has left only.
        """
        now, left = self._clock.now(), table.left()
        if left or self._left_at:
            attended = table.attended()
            keys = keys_of(left | attended)
            self._left_at |= {key: now for name in left for key in keys.get(name, ())}
            read = {key for name in attended for key in keys.get(name, ())}
            self._left_at = {
                key: at for key, at in self._left_at.items() if at + READERS_GO_S > now and key not in read
            }
        self.left = frozenset(self._left_at)
