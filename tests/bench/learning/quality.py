"""How well an order is shuffled: correlations of where records stand in the source. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Quality:
    """Each is 0 for a perfect shuffle, but for chance, and 1 for the stored order.

    `within_batches`: intra-class correlation of the source positions in a batch, 1: a batch is one place.
    `neighbours`: correlation of the source positions of records that follow one another.
    `drift`: correlation of the place in the stream and the place in the source.
    """

    within_batches: float
    neighbours: float
    drift: float


def measure(order: npt.NDArray[np.int64], batch: int) -> Quality:
    """`order`: source positions in the order of the stream, shape [records]; the last, smaller batch is left out."""
    place = (order - order.mean()) / order.std()
    batches = place[: len(place) // batch * batch].reshape(-1, batch)
    between = batch * float(np.var(batches.mean(1), ddof=1))
    within = float(np.mean(np.var(batches, axis=1, ddof=1)))
    stream = np.arange(len(place), dtype=np.float64)
    return Quality(
        within_batches=(between - within) / (between + (batch - 1) * within),
        neighbours=float(np.corrcoef(place[:-1], place[1:])[0, 1]),
        drift=abs(float(np.corrcoef(stream, place)[0, 1])),
    )


def mean(qualities: list[Quality]) -> dict[str, Any]:
    rows = [asdict(quality) for quality in qualities]
    return {name: round(fmean(row[name] for row in rows), 4) for name in rows[0]}
