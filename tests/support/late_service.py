"""A dispatcher and workers as forks, quick to call a worker lost: for tests of what is left at the end of an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import tfquiver
from tests.support import node_calls, numbered
from tests.support.cluster import Cluster, wait_until
from tests.support.worker_forks import Worker, WorkerForks
from tfquiver import CutPolicy

RECORDS_A_FILE, RECORD_BYTES = 500, 500
_MOST_BUFFERED = 600  # records: in pool, worker and client at the end of the source
_END_S = 1.0  # until it is told


class LateService:
    """Coordinator and node run at once, the others from `start` on. A context manager, which ends everything.

    Args:
      flags: of the dispatcher, beside those that all of these tests need.
      env: of dispatcher and workers.
    """

    def __init__(self, base: Path, flags: Sequence[str] = (), env: Mapping[str, str] | None = None) -> None:
        self.cluster = Cluster(base / "cluster", workers=0)
        self._base, self._flags = base, flags
        self.work_dir = base / "dispatcher"  # of the dispatcher
        self._forks = WorkerForks(env)
        self.dispatcher: Worker
        self.workers: list[Worker] = []

    def start(self, workers: int = 2) -> LateService:
        self.start_dispatcher()
        return self.start_workers(workers, self.dispatcher.address)

    def start_dispatcher(self) -> None:
        node_dir = f"--node_dir={self.cluster.cache_dir}"
        flags = [f"--work_dir={self.work_dir}", "--worker_timeout_ms=500", "--reap_interval_ms=200", *self._flags]
        self.dispatcher = self._forks.dispatcher([*flags, node_dir], self._base / "dispatcher.log")
        self.dispatcher.launch().await_ready()

    def start_workers(self, workers: int, dispatcher: str) -> LateService:
        """`dispatcher`: where they reach it."""
        for number in range(workers):
            way = [f"--dispatcher={dispatcher}", f"--node_dir={self.cluster.cache_dir}", "--heartbeat_interval_ms=200"]
            self.workers.append(self._forks.worker(way, self.worker_log(number)))
        launch(self.workers)
        return self

    def worker_log(self, number: int) -> Path:
        return self._base / f"worker-{number}.log"

    def source(self, files: int, readahead_bytes: int) -> Any:
        """Numbered records of so many files in batches of 20; the pool takes as much as the readahead."""
        return tfquiver.dataset(
            numbered.write(self._base / "data", files, RECORDS_A_FILE, RECORD_BYTES),
            service=self.cluster.coordinator.address,
            first_use=tfquiver.FirstUse(cut=CutPolicy(5_000, 10_000, 20_000)),
            batch_size=20,
            reading=tfquiver.Reading(readahead_bytes=readahead_bytes),
            order=tfquiver.Shuffled(shuffle_bytes=readahead_bytes),
        )

    def distributed(self, source: Any) -> Any:
        return source.apply(tfquiver.distribute(self.dispatcher.address, compression=None))

    def __enter__(self) -> LateService:
        with ExitStack() as stack:
            stack.enter_context(self.cluster)
            stack.enter_context(self._forks)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in [*self.workers, getattr(self, "dispatcher", None)]:
            if server is not None:
                server.kill()
        self._stack.__exit__(kind, error, trace)


def launch(servers: Sequence[Worker]) -> None:
    """Starts them at once, those that were killed at the addresses that they had."""
    for server in servers:
        server.launch()
    for server in servers:
        server.await_ready()


def ended(cluster: Cluster, epoch: int) -> bool:
    """Whether the session of that epoch has ended."""
    return any(info.ended and info.epoch == epoch for info in node_calls.sessions(cluster.coordinator.address))


def behind(cluster: Cluster, epoch: int, reader: numbered.EpochReader, all_records: int) -> None:
    """Returns when the session of that epoch has ended and the trainer, who was allowed one element, is behind it. How
    far does not depend on how long it takes to see that it has: he takes two elements between two looks, and none while
    an end that is near may still be on its way."""
    while not ended(cluster, epoch):
        if all_records - len(reader.seen()) < _MOST_BUFFERED:
            with suppress(TimeoutError):
                wait_until(lambda: ended(cluster, epoch), "its end", _END_S)
                break
        reader.allow(2)
        reader.reached(min(len(reader.seen()) + 1, all_records))
    assert len(reader.seen()) < all_records, "the trainer is behind its workers"


def settled(cluster: Cluster, epoch: int) -> bool:
    """Whether it has ended and nothing of it is held back."""
    of_epoch = [info for info in node_calls.sessions(cluster.coordinator.address) if info.epoch == epoch]
    return bool(of_epoch) and of_epoch[0].ended and of_epoch[0].acked == of_epoch[0].shards
