"""Arguments of schemes, which come from files and other machines; what is wrong is named. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from tfquiver.messages_and_binary_formats.drawn_shards import MOST_DRAWS
from tfquiver.sizes_durations_amounts.amounts import many

_MOST = 1e300


def number(name: str, value: object, least: float, most: float) -> float:
    """Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise ValueError(f"{name}={value!r}: must be a number from {least:g} to {most:g}")
    return float(value)


def checked_draws(count: int) -> int:
    """So many of an epoch, known before there is memory for them. Raises ValueError."""
    if count > MOST_DRAWS:
        raise ValueError(too_many_draws(count))
    return count


def too_many_draws(count: int) -> str:
    return (
        f"{many(count, 'draw')}; an epoch has 1 to {MOST_DRAWS}: draw fewer (a smaller epoch_share=, or copies= with "
        "weights of records), or cut larger shards (FirstUse(cut=))"
    )


def truth(name: str, value: object) -> bool:
    """Raises ValueError."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: must be true or false")
    return value


def weights(name: str, values: Iterable[object]) -> npt.NDArray[np.float64]:
    """Each a number, none below 0, not all 0. Raises ValueError naming the first that is wrong."""
    checked = []
    for at, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
            raise ValueError(f"{name}[{at}]={value!r}: must be a number from 0 to {_MOST:g}")
        checked.append(float(value))
    made = np.array(checked, np.float64)
    if not len(made) or not made.any():
        raise ValueError(f"{name}: at least one must be above 0")
    return made
