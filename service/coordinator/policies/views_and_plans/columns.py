"""Views and plans as columns: a few numbers of each of thousands of data sets and jobs, counted with at once. Pure.

Rows (`DatasetView`, `Allocation`) and columns say the same. Whoever has one of them is given the other where he asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import nan
from typing import TypeVar, overload

import numpy as np

from tfquiver.service.coordinator.policies.views_and_plans.interface import (
    MODES,
    Allocation,
    ClusterView,
    DatasetView,
    Floats,
    Ints,
    JobView,
    Mode,
    ViewColumns,
)

Row = TypeVar("Row")
Value = TypeVar("Value")


class Rows(Sequence[Row]):
    """Made when somebody looks at one."""

    def __init__(self, count: int, make: Callable[[], Sequence[Row]]) -> None:
        self._count, self._make = count, make

    @cached_property
    def _all(self) -> Sequence[Row]:
        return self._make()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | Sequence[Row]:
        return self._all[at]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._all)


def listed(column: Floats | Ints) -> Rows[float]:
    """When somebody looks: of thousands hardly any reason is ever read."""
    return Rows(len(column), column.tolist)


def picked(names: Sequence[str], places: Ints) -> Rows[str]:
    """Likewise."""
    return Rows(len(places), lambda: [names[place] for place in places.tolist()])


def given_columns(view: ClusterView) -> ViewColumns | None:
    """None: only its rows are there. `replace` leaves columns behind that are of other rows."""
    made = view.columns
    there = made is not None and made.rows[0] is view.datasets and made.rows[1] is view.jobs
    return made if there else None


def columns_of(view: ClusterView) -> ViewColumns:
    """For a view that `check_view` passes."""
    return given_columns(view) or _made(view.datasets, view.jobs)


def _made(datasets: Sequence[DatasetView], jobs: Sequence[JobView]) -> ViewColumns:
    places = {dataset.name: place for place, dataset in enumerate(datasets)}
    ranks = np.empty(len(datasets), np.int64)
    ranks[[places[name] for name in sorted(places)]] = np.arange(len(datasets))
    return ViewColumns(
        [dataset.name for dataset in datasets],
        ranks,
        _ints(dataset.size_bytes for dataset in datasets),
        _ints(dataset.cooperative_bytes for dataset in datasets),
        _ints(dataset.resident_bytes for dataset in datasets),
        np.array([dataset.pin is not None for dataset in datasets], np.bool_),
        [job.name for job in jobs],
        _ints(places[job.dataset] for job in jobs),
        _floats(job.ideal_bytes_per_s for job in jobs),
        _floats(job.hit_bytes_per_s for job in jobs),
        _floats(job.miss_bytes_per_s for job in jobs),
        _floats(job.cooperative_bytes_per_s for job in jobs),
        _floats(job.hit_ratio for job in jobs),
        _ints(job.accelerators for job in jobs),
        np.array([job.irregular for job in jobs], np.bool_),
        np.array([job.remote_pin_bytes_per_s is not None for job in jobs], np.bool_),
        (datasets, jobs),
    )


def _ints(values: Iterable[int]) -> Ints:
    return np.array([*values], np.int64)


def _floats(values: Iterable[float | None]) -> Floats:
    return np.array([nan if value is None else value for value in values], np.float64)


class ByName(Mapping[str, Value]):
    """What a plan says of some of a view's data sets or jobs; by name for who asks by name."""

    def __init__(self, names: Sequence[str], places: Ints) -> None:
        """`names`: of all in the view; `places`: of those that it is about."""
        self.names, self.places = names, places

    def _values(self) -> Iterable[Value]:
        raise NotImplementedError

    @cached_property
    def _by_name(self) -> dict[str, Value]:
        return dict(zip(map(self.names.__getitem__, self.places.tolist()), self._values(), strict=True))

    def __getitem__(self, name: str) -> Value:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self.places)

    def __or__(self, later: Mapping[str, Value]) -> Mapping[str, Value]:
        """Of names that both have the later one counts. As columns, where nothing is added."""
        return {**self, **later} if later else self


class AllocationColumns(ByName[Allocation]):
    def __init__(self, names: Sequence[str], places: Ints, mode: Mode | Ints, cache_bytes: Ints) -> None:
        """`mode`: one for all, or of each its place in `MODES`."""
        super().__init__(names, places)
        self.modes = np.full(len(places), MODES.index(mode)) if isinstance(mode, str) else mode
        self.cache_bytes = cache_bytes

    def _values(self) -> Iterable[Allocation]:
        return map(Allocation, map(MODES.__getitem__, self.modes.tolist()), self.cache_bytes.tolist())


class RateColumns(ByName[float]):
    def __init__(self, names: Sequence[str], places: Ints, bytes_per_s: Floats) -> None:
        super().__init__(names, places)
        self.bytes_per_s = bytes_per_s

    def _values(self) -> Iterable[float]:
        values: list[float] = self.bytes_per_s.tolist()
        return values
