"""What of many things a node tells with each heartbeat, where there is room for only so many. Pure."""

from __future__ import annotations

from collections.abc import Sequence


class InTurn:
    """`most`: that are told at a time; of these the first `always` each time, the others in turn."""

    def __init__(self, most: int, always: int = 0) -> None:
        self._most, self._always = most, always
        self._told: dict[bytes, int] = {}  # the last time that each was
        self._times = 0

    def some(self, keys: Sequence[bytes]) -> Sequence[bytes]:
        """Of all that there are now; all of them, where there is room."""
        self._told = {key: self._told.get(key, 0) for key in keys} if len(keys) > self._most else {}
        if not self._told:
            return keys
        first, others = keys[: self._always], keys[self._always :]
        chosen = [*first, *sorted(others, key=self._told.__getitem__)[: self._most - len(first)]]
        self._times += 1
        self._told |= dict.fromkeys(chosen, self._times)
        return chosen
