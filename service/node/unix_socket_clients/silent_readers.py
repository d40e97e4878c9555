"""Readers that say nothing any more though their connection stands: their process was stopped, or hangs. Pure."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)
PATIENCE_S = 60.0  # a reader that is answered once reports every second
_LOOKS = 12  # in that time


class SilentReaders(Generic[T]):
    """Who has been silent for `patience_s`. Time in which nobody looked, because this process was stopped itself or
    its machine slept, does not count: what the readers said meanwhile has not been read yet."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self.patience_s, self.look_s = patience_s, patience_s / _LOOKS
        self._silent_s: dict[T, float] = {}
        self._looked_s: float | None = None

    def promises(self, reader: T) -> None:
        """To be heard of every second from now on."""
        self._silent_s[reader] = 0.0

    def heard(self, reader: T) -> None:
        if reader in self._silent_s:
            self._silent_s[reader] = 0.0

    def gone(self, reader: T) -> None:
        self._silent_s.pop(reader, None)

    def look(self, now_s: float) -> list[T]:
        """Those that have become silent for so long; each once. To be called every `look_s`."""
        passed_s = 0.0 if self._looked_s is None else min(max(now_s - self._looked_s, 0.0), 2 * self.look_s)
        self._looked_s = now_s
        silent = []
        for reader, silent_s in self._silent_s.items():
            self._silent_s[reader] = silent_s + passed_s
            if silent_s + passed_s > self.patience_s:
                silent.append(reader)
        for reader in silent:
            del self._silent_s[reader]
        return silent
