"""A data set of many small shards, and jobs that read it epoch after epoch, for tests of caching by chunks."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support import records
from tests.support.reader_client import ReaderClient, ReaderGoneError, split_records
from tfquiver.disk_space_of_shards.entry_size import PAGE_BYTES
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, types_pb2

RECORD_BYTES = 2 * PAGE_BYTES - 16  # with its framing, two pages
ENTRY_BYTES = 3 * PAGE_BYTES


def write(directory: Path, shards: int, files: int = 4, seed: int = 5) -> list[bytes]:
    """Records that do not compress, each of which is to be a shard; ENTRY_BYTES on a node's disk."""
    directory.mkdir(exist_ok=True)
    rng = random.Random(seed)
    made = [b"%06d " % number + rng.randbytes(RECORD_BYTES - 7) for number in range(shards)]
    for part in range(files):
        (directory / f"part-{part}").write_bytes(records.stream(made[part::files]))
    return made


def set_cache(coordinator: str, dataset: types_pb2.Dataset, mode: str, **fields: Any) -> types_pb2.CacheSetting:
    setting = types_pb2.CacheSetting(mode=types_pb2.CacheMode.Value(f"CACHE_MODE_{mode.upper()}"), **fields)
    with rpc.channel(coordinator) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        request = coordinator_pb2.SetCacheRequest(digest_id=dataset.digest_id, setting=setting)
        fixed: types_pb2.CacheSetting = stub.SetCache(request, timeout=20.0, wait_for_ready=True)
        return fixed


class Job(threading.Thread):
    """Reads epochs, one session each, at `step_s` a shard; goes on when its node is killed and comes back.

    Args:
      at_epoch: called at the end of each, in this thread, with its number.
    """

    def __init__(
        self,
        socket: str,
        dataset: types_pb2.Dataset,
        name: str,
        epochs: int,
        step_s: float = 0.0,
        at_epoch: Callable[[int], object] = lambda epoch: None,
    ) -> None:
        super().__init__(name=name)
        self._socket, self._dataset, self._step_s, self._at_epoch = socket, dataset, step_s, at_epoch
        self._epochs = epochs
        self.read: list[Counter[bytes]] = []
        self.shards = 0
        self.reconnects = 0
        self.enough = False  # when set it reads on as fast as it can, and leaves at the end of the epoch
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            for epoch in range(self._epochs):
                if self.enough:
                    break
                self.read.append(Counter())
                self._read_epoch(self.read[-1])
                self._at_epoch(epoch)
        except BaseException as error:  # noqa: BLE001 - raised again in `finish`
            self._failure = error

    def finish(self, deadline_s: float = 90.0) -> list[Counter[bytes]]:
        """How often it read each record, by epoch. Raises what ended it."""
        self.join(deadline_s)
        assert not self.is_alive(), f"job {self.name} stands still in epoch {len(self.read)} after {self.shards} shards"
        if self._failure:
            raise self._failure
        return self.read

    def _read_epoch(self, read: Counter[bytes]) -> None:
        client = ReaderClient(
            self._socket, self._dataset.digest_id, session_key=self.name, job=self.name, credit_bytes=64 << 10,
            timeout_s=60.0,
        )  # fmt: skip
        try:
            while not client.ended:
                try:
                    for _, data in client.shards():
                        read.update(split_records(data))
                        self.shards += 1
                        time.sleep(0 if self.enough else self._step_s)
                except ReaderGoneError:
                    self.reconnects += 1
                    client.reconnect()
        except BaseException:
            client.connection.close()
            raise
        client.close()
