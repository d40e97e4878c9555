"""Which names nodes were told something else of, and when: who has an older state is told these, not all. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

MOST = 4096  # names; who is further behind is told everything


class NamedChanges:
    """`first`: its versions begin there. Not 0, and so that no other process, or history, has the same ones."""

    def __init__(self, first: int, most: int = MOST) -> None:
        self.version, self._most = first, most
        self._changed: OrderedDict[str, int] = OrderedDict()  # by which version; the last ones last
        self._known_from = first

    def add(self, names: Iterable[str]) -> None:
        """In this order."""
        self.version += 1
        for name in names:
            self._changed[name] = self.version
            self._changed.move_to_end(name)
        while len(self._changed) > self._most:
            self._known_from = self._changed.popitem(last=False)[1]

    def __contains__(self, version: object) -> bool:
        """What has changed since that one is known; it is one of these."""
        return isinstance(version, int) and self._known_from <= version <= self.version

    def since(self, version: int) -> list[str]:
        """In the order in which they changed last."""
        names = list[str]()
        for name, changed in reversed(self._changed.items()):
            if changed <= version:
                break
            names.append(name)
        return names[::-1]
