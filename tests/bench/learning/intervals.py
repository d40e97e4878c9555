"""Means of a few runs with 95 % intervals (Student's t), and of the difference of two (Welch). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, variance

# 97.5 % quantiles by degrees of freedom, from 1 on.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_T_BEYOND = 2.13


@dataclass(frozen=True, slots=True)
class Interval:
    mean: float
    half: float

    def overlaps(self, other: Interval) -> bool:
        return abs(self.mean - other.mean) <= self.half + other.half

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half


def of(values: Sequence[float]) -> Interval:
    """Of at least two runs."""
    return Interval(fmean(values), quantile(len(values) - 1) * sqrt(variance(values) / len(values)))


def difference(a: Sequence[float], b: Sequence[float]) -> Interval:
    """Of mean a minus mean b; the two need not vary alike."""
    error_a, error_b = variance(a) / len(a), variance(b) / len(b)
    error = error_a + error_b
    freedom = error**2 / (error_a**2 / (len(a) - 1) + error_b**2 / (len(b) - 1)) if error else 1.0
    return Interval(fmean(a) - fmean(b), quantile(int(freedom)) * sqrt(error))


def quantile(freedom: int) -> float:
    return _T[freedom - 1] if freedom <= len(_T) else _T_BEYOND
