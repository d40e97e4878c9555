"""The paper's three workloads (Quiver, FAST'20, Table 3), scaled to a store of another rate. Pure."""

from __future__ import annotations

from dataclasses import dataclass

JOBS = 7
_MINI_BATCHES = 7000


@dataclass(frozen=True, slots=True)
class Workload:
    """Seconds for 7000 mini-batches of each of seven jobs: reading the store, from the cache, co-operative misses."""

    name: str
    miss_s: float
    hit_s: float
    cold_s: float

    @property
    def step_s(self) -> float:
        """Of one mini-batch. With hits reading is hidden: what is left is the training step."""
        return self.hit_s / _MINI_BATCHES

    @property
    def hit_speedup(self) -> float:
        return self.miss_s / self.hit_s

    @property
    def cold_speedup(self) -> float:
        return self.miss_s / self.cold_s

    def batch_bytes(self, store_bytes_per_s: float) -> float:
        """So many that seven jobs that share the store, and nothing else, take the paper's time for a mini-batch."""
        return self.miss_s / _MINI_BATCHES * store_bytes_per_s / JOBS

    def for_7000(self, mini_batch_s: float) -> float:
        return mini_batch_s * _MINI_BATCHES


RESNET50 = Workload("ResNet50", 2505, 646, 1064)
INCEPTION = Workload("Inception v3", 2874, 1274, 1817)
DEEPSPEECH = Workload("DeepSpeech2", 1614, 1234, 1265)
WORKLOADS = (RESNET50, INCEPTION, DEEPSPEECH)
