"""Jobs that wait in line, by number. Pure."""

from __future__ import annotations

from bisect import insort
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tfquiver.service.sim.job_queue_rates_store_bandwidth.sharing import Floats, Ints


class Submissions(Protocol):
    """Of each job when it was submitted, and its name."""

    submit_s: Floats
    names: npt.NDArray[np.str_]


class ByKey:
    """The least key goes first; of equals who was submitted first, and then by name. For dozens that come and go."""

    def __init__(self, jobs: Submissions) -> None:
        self._jobs, self._entries = jobs, list[tuple[float, float, str, int]]()

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, number: int, key: float) -> None:
        insort(self._entries, (key, float(self._jobs.submit_s[number]), str(self._jobs.names[number]), number))

    def first(self, most: int) -> Ints:
        return np.array([entry[3] for entry in self._entries[:most]], np.int64)

    def remove(self, first: Ints) -> None:
        """The first of all."""
        del self._entries[: len(first)]


class BySubmission:
    """In the order of submission, and then by name. For thousands, of which hundreds come and go at once."""

    def __init__(self, jobs: Submissions) -> None:
        self._number_at = np.lexsort((jobs.names, jobs.submit_s))
        self._place_of = np.argsort(self._number_at)
        self._waits = np.zeros(len(self._number_at), np.bool_)  # by place

    def __len__(self) -> int:
        return int(np.count_nonzero(self._waits))

    def add(self, numbers: int | Ints) -> None:
        self._waits[self._place_of[numbers]] = True

    def remove(self, numbers: Ints) -> None:
        self._waits[self._place_of[numbers]] = False

    def all(self) -> Ints:
        return self._number_at[np.flatnonzero(self._waits)]

    def first(self, most: int) -> Ints:
        return self._number_at[np.flatnonzero(self._waits)[:most]]
