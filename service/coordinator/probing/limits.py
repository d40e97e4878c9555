"""How far a probe may go. Pure values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProbeLimits:
    """`least_batches`: mini-batches of a window, the paper's 100 (Quiver 5.3), or as many as pass in `least_s`: large
    ones take seconds each, and nothing of what a job misses meanwhile is kept. It is grown until t_miss / t_hit is
    known to `half_width`, or it has `most_batches`."""

    least_batches: int = 100
    least_s: float = 60.0
    most_batches: int = 1000
    half_width: float = 0.05
    least_benefit: float = 1.1  # with less, for certain, caching is not worth it
    extra_share: float = 0.02  # of all a job reads: what its probes may cost the store
    pure_share: float = 0.95  # of what is handed out must be misses, or hits, to count as such
    phase_s: float = 300.0  # to miss, and again to hit: then it is over, whatever came of it
    repeat_s: float = 1800.0
    load_factor: float = 1.5  # a store so much slower, or faster, is another one
    gap_s: float = 60.0  # between two probes of a job; after one that came to nothing twice as long, each time
    at_once: int = 4  # they slow one another down at the store
    ahead_at_once: int = 256  # of those that need not miss (JobMeasurement.loaded_ahead) and wait for room to hit
