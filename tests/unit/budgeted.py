"""Jobs with budgets, by the coordinator's own object, that take as much as they are given."""

from __future__ import annotations

from tfquiver.clock import ManualClock
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.service.coordinator.bandwidth_budgets.budgets import Budgets

DATA, OTHER = b"data", b"other"
SHARD_BYTES = 100


class World:
    """Jobs that take as much as they are given, in steps of 10 ms; wants in bytes/s."""

    def __init__(self, **rates: float) -> None:
        self.clock = ManualClock()
        self.log: list[log_pb2.CommitRecord] = []
        self.budgets = Budgets(self.clock, self.log.append)
        self.jobs_of = {DATA: frozenset(rates)}
        for job, rate in rates.items():
            self.budgets.pins.allocate(job, rate)
        self.steps = 0

    def go(self, seconds: float, **wants: float) -> dict[str, float]:
        """What they took, bytes/s."""
        taken, owed = dict.fromkeys(wants, 0.0), dict.fromkeys(wants, 0.0)
        for _ in range(round(seconds * 100)):
            self.clock.advance(0.01)
            self.steps += 1
            for job, want in wants.items():
                owed[job] = min(owed[job] + want / 100, max(want / 10, 2 * SHARD_BYTES))
                while owed[job] >= SHARD_BYTES:
                    left = self.budgets.left_bytes(job)
                    if left is not None and left <= 0:
                        self.budgets.held_back(job)
                        break
                    self.budgets.leased(job, SHARD_BYTES)
                    taken[job] += SHARD_BYTES
                    owed[job] -= SHARD_BYTES
            if self.steps % 100 == 0:
                self.budgets.tick(self.jobs_of, [DATA])
        return {job: size / seconds for job, size in taken.items()}


def crowd(jobs: int) -> World:
    world = World()
    world.budgets.plan({f"job{at}": 1000.0 * (1 + at % 3) for at in range(jobs)})
    world.jobs_of = {DATA: frozenset(world.budgets.allocated)}
    world.budgets.tick(world.jobs_of, [DATA])
    return world
