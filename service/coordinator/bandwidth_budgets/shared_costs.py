"""What the jobs of one data set pay together, each in proportion to its rate. Pure.

A lease must not take longer because thousands of jobs share what it costs: here it is only noted how much each byte/s
of rate owes, and a job is charged when somebody looks at its bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set


class SharedCosts:
    """Jobs without a rate take a head's part each. In equal parts, one with a small rate would never be out of debt,
    and what it cannot pay would come on top of what the others may read."""

    def __init__(self, jobs: Iterable[str], rates: Mapping[str, float]) -> None:
        """`rates`: bytes/s, > 0, of those of `jobs` that have one."""
        self._jobs = set(jobs)
        self._together = 0.0  # of all rates, bytes/s
        self._leased = self._loaded = 0.0  # bytes, for each byte/s of a rate
        self._charged: dict[str, tuple[float, float]] = {}  # of these, by job that has a rate: until here
        for job, rate in rates.items():
            self._begin(job, rate)

    def is_of(self, jobs: Set[str]) -> bool:
        """Whether these, and no others, pay."""
        return self._jobs == jobs

    @property
    def limited(self) -> Iterable[str]:
        """Jobs that have a rate."""
        return self._charged.keys()

    def __contains__(self, job: str) -> bool:
        return job in self._jobs

    def join(self, job: str, rate: float | None) -> None:
        """From now on it pays, too."""
        self._jobs.add(job)
        if rate is not None:
            self._begin(job, rate)

    def leased(self, size_bytes: float) -> None:
        self._leased += self._each(size_bytes)

    def loaded(self, size_bytes: float) -> None:
        """Ahead, for all."""
        self._loaded += self._each(size_bytes)

    def charge(self, job: str, rate: float) -> tuple[float, float]:
        """Bytes, leased and loaded, that a job with this rate owes since it was charged last."""
        leased, loaded = self._charged[job]
        self._charged[job] = self._leased, self._loaded
        return (self._leased - leased) * rate, (self._loaded - loaded) * rate

    def changed(self, more: float, rate: float) -> None:
        """The rate of a job that was charged just now is so much higher from now on, and is `rate`, bytes/s."""
        self._together = max(self._together + more, rate)  # of a far higher one, rounding may leave nothing

    def unlimited(self, job: str, rates: Iterable[float]) -> None:
        """A job that was charged just now has no rate from now on. `rates`: of the others, added up anew: of a far
        higher one, rounding would leave nothing."""
        del self._charged[job]
        self._together = sum(rates)

    def _begin(self, job: str, rate: float) -> None:
        self._charged[job] = self._leased, self._loaded
        self._together += rate

    def _each(self, size_bytes: float) -> float:
        return size_bytes * len(self._charged) / len(self._jobs) / self._together if self._charged else 0.0
