"""Workloads drawn with a seed, as published traces are shaped. Pure.

Jobs arrive as a Poisson process. How long one takes at its ideal rate is 10^x minutes, x from 1.5 to 3 for 80 % of
them and from 3 to 4 for the others; 70 % want one accelerator, 25 % two or four, 5 % eight: how Gandiva (OSDI 2018) and
Gavel (OSDI 2020, section 7.1) draw the shape of Microsoft's Philly trace (Jeon et al.), whom SiloD's section 7 follows.
Models and data sets are SiloD's (Table 4), each of its eight models as likely as another: six read images, for which
the three stand whose speeds it gives (Figure 6). Of several data sets of a model each is as likely as another.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from tfquiver.service.sim.workloads_and_recordings.workload import SimJob, Workload

MB, GB, TB = 10**6, 2**30, 2**40
MINUTE_S, WEEK_S = 60.0, 7 * 24 * 3600.0
DATASETS = {
    "ImageNet-22k": int(1.36 * TB),
    "Open Images": 660 * GB,
    "ImageNet-1k": 143 * GB,
    "Youtube-8M": int(1.46 * TB),
    "Web Search": int(20.9 * TB),
}
_IMAGES = ("ImageNet-22k", "Open Images", "ImageNet-1k")


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    bytes_per_s: float  # of one V100
    datasets: Sequence[str]
    weight: int


MODELS = (
    Model("ResNet-50", 114 * MB, _IMAGES, 2),
    Model("ResNet-152", 43 * MB, _IMAGES, 2),
    Model("EfficientNetB1", 69 * MB, _IMAGES, 2),
    Model("VLAD", 10 * MB, ("Youtube-8M",), 1),
    Model("BERT", 2 * MB, ("Web Search",), 1),
)
_WANTED, _WANTED_WEIGHTS = (1, 2, 4, 8), (0.70, 0.125, 0.125, 0.05)
_LONG_PART = 0.2
MEAN_ACCELERATORS = sum(wanted * weight for wanted, weight in zip(_WANTED, _WANTED_WEIGHTS, strict=True))


@dataclass(frozen=True, slots=True)
class TraceShape:
    """What may be asked of `generate`.

    load: accelerators that the jobs would keep busy on average if none ever waited, as a part of all.
    sharing: part of the jobs that read the one data set that others of their kind read; the rest have copies of their
      own, as in SiloD's section 7 ("all jobs use different datasets").
    speed: of an accelerator, in V100s. Jobs read as much as before, and sooner.
    """

    accelerators: int = 400
    weeks: float = 4.0
    load: float = 1.0
    sharing: float = 0.0
    speed: float = 1.0


def expected_jobs(shape: TraceShape) -> float:
    """How many `generate` makes, on average."""
    return _jobs_per_s(shape) * shape.weeks * WEEK_S


def generate(shape: TraceShape, seed: int) -> Workload:
    rng, jobs_per_s = random.Random(seed), _jobs_per_s(shape)
    datasets: dict[str, int] = {}
    jobs: list[SimJob] = []
    now = rng.expovariate(jobs_per_s)
    while now < shape.weeks * WEEK_S:
        jobs.append(_job(rng, len(jobs), now, shape, datasets))
        now += rng.expovariate(jobs_per_s)
    return Workload(datasets, tuple(jobs))


def _jobs_per_s(shape: TraceShape) -> float:
    mean_s = MINUTE_S * (0.8 * _mean_power(1.5, 3.0) + _LONG_PART * _mean_power(3.0, 4.0))
    return shape.load * shape.accelerators / (mean_s * MEAN_ACCELERATORS)


def _job(rng: random.Random, number: int, now: float, shape: TraceShape, datasets: dict[str, int]) -> SimJob:
    exponent = rng.uniform(3.0, 4.0) if rng.random() < _LONG_PART else rng.uniform(1.5, 3.0)
    wanted = min(rng.choices(_WANTED, _WANTED_WEIGHTS)[0], shape.accelerators)
    model = rng.choices(MODELS, [model.weight for model in MODELS])[0]
    kind = rng.choice(model.datasets)
    name = f"job {number}"
    # Drawn last, and always: shapes that differ in what is shared have the same jobs.
    dataset = kind if rng.random() < shape.sharing else f"{kind} of {name}"
    datasets[dataset] = DATASETS[kind]
    v100_bytes_per_s = model.bytes_per_s * wanted
    total_bytes = v100_bytes_per_s * MINUTE_S * 10**exponent
    return SimJob(name, dataset, v100_bytes_per_s * shape.speed, total_bytes, wanted, now)


def _mean_power(low: float, high: float) -> float:
    """Of 10^x with x uniform."""
    return float((10**high - 10**low) / ((high - low) * math.log(10)))
