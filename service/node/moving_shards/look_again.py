"""When a node looks again at what it has to move. Pure."""

from __future__ import annotations

from collections.abc import Hashable

FIRST_LOOK_AGAIN_S, LONGEST_LOOK_AGAIN_S = 1.0, 30.0
# What readers bring of what is kept several times is in one place until then; and whether a move is over is known when
# all nodes have looked again since anything moved.
SOON_LOOK_AGAIN_S = 3.0
# Of what nodes look up, times the nodes that do: a tenth of the coordinator's processor where each asks again soon (0.3
# us for each). Of more it is asked less often where nothing is new: how much that is depends on how many ask.
_FEW = 1_000_000
_OF_A_NODE = 25  # prefixes: what it costs to begin with another one


def lookups(prefixes: int, names: int) -> int:
    """What it costs the coordinator to say which of these shards each of these nodes holds."""
    return (prefixes + _OF_A_NODE) * names


class LookAgain:
    """Soon where something is new, later each time where nothing is: what waits for others may wait for ever, and a
    thousand nodes ask the coordinator for it at each look."""

    def __init__(self) -> None:
        self._pause_s = FIRST_LOOK_AGAIN_S
        self._left: Hashable = ()

    def told(self) -> float:
        """The placement is another one."""
        self._pause_s = FIRST_LOOK_AGAIN_S
        return self._pause_s

    def after(self, busy: bool, left: Hashable, several: bool, looked_up: int, nodes: int) -> float:
        """The pause after a look, in seconds.

        Args:
          busy: something was done, or will be soon.
          left: what is to come or to go, and may yet; the same as last time: nothing has changed since.
          several: something is kept more than once.
          looked_up: what the coordinator was asked for, as `lookups` counts.
          nodes: that live.
        """
        changed, self._left = left != self._left, left
        self._pause_s = FIRST_LOOK_AGAIN_S if busy else min(2 * self._pause_s, LONGEST_LOOK_AGAIN_S)
        if (several or (left and changed)) and looked_up * nodes <= _FEW:
            self._pause_s = min(self._pause_s, SOON_LOOK_AGAIN_S)
        return self._pause_s
