"""From what was measured of a pipeline's stages: shares of its time, and what to change (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfquiver.sizes_durations_amounts.amounts import many

_LEAST_S = 1e-9  # TensorFlow counts nanoseconds; shares of what is far below would be 0 / 0
_MUCH, _MOSTLY = 0.25, 0.9
_ENOUGH = 1.5  # times as fast as the training takes it: no step waits
WAITS = "waits for records"
_OVERHEAD = "tf.data itself"
_PASSES_ON = ("Prefetch", "Repeat", "Options", "Model", "MaxIntraOpParallelism", "PrivateThreadPool")


@dataclass(frozen=True, slots=True)
class Stage:
    """`busy_s`: of all its threads together, waits for what is before it left out. `threads`: at most so many at a
    time; `function`: the user's, as far as it has a name."""

    name: str
    busy_s: float
    threads: int = 1
    function: str = ""

    @property
    def shown(self) -> str:
        if any(name in self.name for name in _PASSES_ON):
            return _OVERHEAD
        return f"{self.name} ({self.function})" if self.function else self.name


@dataclass(frozen=True, slots=True)
class Source:
    """Of the job's readers: which part of their time the pipeline waited for records, and which part of the bytes came
    from the cache; None: not known."""

    job: str
    stall_share: float | None
    hit_share: float | None


@dataclass(frozen=True, slots=True)
class InputReport:
    """What `tfquiver.explain_input` has seen; `print` it.

    Attributes:
      seconds: for which it looked.
      elements_per_s: what the pipeline gives to somebody who does nothing with it.
      shares: of its time, by stage; the largest first, all together 1.
      training_steps_per_s: what this process's training takes (`StepMonitor`, `tfquiver.step`); None: not known.
      advice: what to change, the most useful first.
    """

    seconds: float
    elements_per_s: float
    shares: dict[str, float]
    training_steps_per_s: float | None
    advice: tuple[str, ...]

    def __str__(self) -> str:
        parts = ", ".join(f"{share:.0%} {name}" for name, share in self.shares.items() if share >= 0.005)
        takes = ""
        if self.training_steps_per_s:
            takes = f"; the training takes {self.training_steps_per_s:.3g} a second"
        head = f"{self.elements_per_s:.3g} elements a second, read alone for {self.seconds:.0f} s{takes}"
        return "\n".join([head, f"time: {parts or 'none that was measured'}", *(f"* {one}" for one in self.advice)])


def report(
    seconds: float,
    elements: int,
    stages: Sequence[Stage],
    source: Source,
    training_steps_per_s: float | None,
    prefetches: bool,
) -> InputReport:
    """`stages`: all but the source of tfquiver, which is `source`."""
    stall = min(max(source.stall_share or 0.0, 0.0), 1.0)
    busy = {stage: stage.busy_s / max(stage.threads, 1) for stage in stages if stage.busy_s >= _LEAST_S}
    together = sum(busy.values())
    # Stages overlap, and what waits for records does nothing else: of the rest each has its part.
    shares = {stage.shown: 0.0 for stage in busy}
    for stage, its in busy.items():
        shares[stage.shown] += (1 - stall) * its / together
    if source.stall_share is not None:
        shares[WAITS] = stall if together else 1.0
    rate = elements / seconds if seconds > 0 else 0.0
    by_size = dict(sorted(shares.items(), key=lambda one: -one[1]))
    advice = _advice(rate, stages, by_size, source, training_steps_per_s, prefetches)
    return InputReport(seconds, rate, by_size, training_steps_per_s, tuple(advice))


def _advice(
    rate: float,
    stages: Sequence[Stage],
    shares: dict[str, float],
    source: Source,
    training_steps_per_s: float | None,
    prefetches: bool,
) -> list[str]:
    if training_steps_per_s and rate >= _ENOUGH * training_steps_per_s:
        ahead = "" if prefetches else "; with .prefetch(tf.data.AUTOTUNE) at its end"
        times = f"{rate / training_steps_per_s:.1f} times"
        return [f"the pipeline gives {times} what the training takes, which does not wait for it{ahead}"]
    found = []
    if shares.get(WAITS, 0.0) >= _MUCH:
        if source.hit_share is not None and source.hit_share < _MOSTLY:
            found.append(
                f"{1 - source.hit_share:.0%} of its bytes are shard misses, read from the object store: `tfquiver "
                f"explain {source.job}` says what more cache would bring; `tfquiver warm` reads before the first epoch"
            )
        else:
            found.append(
                "records come from the cache, and it waits for them all the same: is the node's disk or machine busy "
                "(tfquiver doctor)? tfquiver.Reading(shuffle_bytes=...) reads more ahead"
            )
    largest = max(stages, key=lambda stage: stage.busy_s / max(stage.threads, 1), default=None)
    if largest is not None and shares.get(largest.shown, 0.0) >= _MUCH:
        if largest.name == "Map":
            found.append(f"{largest.shown} runs in one thread: map(..., num_parallel_calls=tf.data.AUTOTUNE)")
        elif "Map" in largest.name:
            found.append(
                f"{largest.shown} has {many(largest.threads, 'thread')}: more processors, or a cheaper function"
            )
        elif "Batch" in largest.name:
            found.append("batches are made of single records: tfquiver.dataset(..., batch_size=) does that sooner")
        elif "Shuffle" in largest.name:
            found.append("records are shuffled twice: the source does it already (tfquiver.Reading(shuffle_bytes=...))")
    if not prefetches:
        found.append("nothing is made ahead of the training: end with .prefetch(tf.data.AUTOTUNE)")
    return found
