"""How much of a data set a curriculum shows: SiloD (EuroSys'23) equation 10, for samplers and the simulator. Pure."""

from __future__ import annotations

from math import floor, log

MOST_STEPS, STEP_ROUNDING = 100, 1e-9  # of what is simulated: those after these are alike


def part(starting_part: float, growth: float, step: int) -> float:
    """Of a data set that is sorted by difficulty: what can be drawn in this step, from 0."""
    if step * log(growth) >= -log(starting_part):  # a power may be too large for a number
        return 1.0
    return min(1.0, starting_part * growth**step)


def step_of(steps_done: float, most: int = MOST_STEPS) -> int:
    """Which one it is in, from 0; `most`: in that or a later one. Who is a rounding error before the next one's
    beginning is in the next."""
    return floor(min(steps_done + STEP_ROUNDING, most))
