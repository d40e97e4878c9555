"""Weights that the coordinator reads from its disk: once for all who ask, however long that takes; how many it has."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from tests.contract.test_weights_kept import DIGEST, asking, kept, parts_of, put, weights
from tests.contract.test_weights_used import SIZE_BYTES, needed, on_disk, three
from tests.support.aio import on_loop
from tests.support.coordinator_client import CoordinatorClient
from tests.support.coordinator_served import served
from tfquiver import errors
from tfquiver.messages_and_binary_formats import record_weights
from tfquiver.messages_and_binary_formats.record_weights import RecordWeights
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights import weight_files
from tfquiver.service.coordinator.sampled_sessions_and_uploaded_weights.weight_files import WeightFiles
from tfquiver.service.coordinator.server import CoordinatorServer


class Slowly:
    """Loads go on when they are told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = list[bytes](), threading.Event()
        self.some = asyncio.Event()
        self._loop, self._opened = asyncio.get_running_loop(), record_weights.opened
        monkeypatch.setattr(record_weights, "opened", self._load)

    def _load(self, path: Path, weights_id: bytes = b"") -> RecordWeights:
        self.begun.append(weights_id)
        self._loop.call_soon_threadsafe(self.some.set)
        assert self.go.wait(60)
        return self._opened(path, weights_id)


@on_loop
async def test_a_load_that_takes_longer_than_a_call_is_there_for_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = await kept(tmp_path).put(parts_of(weights().to_bytes()), DIGEST)
    files, loads = kept(tmp_path), Slowly(monkeypatch)
    first = asyncio.create_task(files.get(given.weights_id))
    await loads.some.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    again = asyncio.create_task(files.get(given.weights_id))
    await asyncio.sleep(0)
    loads.go.set()
    assert (await again).weights_id == given.weights_id
    assert loads.begun == [given.weights_id]


@on_loop
async def test_what_does_not_fit_together_is_read_once_for_all_who_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_files, "_OPEN_BYTES", 80)
    ids = (await three(kept(tmp_path)))[:2]
    files, loads = kept(tmp_path), Slowly(monkeypatch)
    loads.go.set()
    got = await asyncio.gather(*(files.get(ids[at % 2]) for at in range(32)))
    assert [one.weights_id for one in got] == ids * 16
    assert sorted(loads.begun) == sorted(ids)


@on_loop
async def test_keys_of_an_earlier_process_hold_weights_that_were_used_of_late(tmp_path: Path) -> None:
    async with served(tmp_path / "work") as (_, client):
        await client.upload([DIGEST.to_bytes()])
        await put(client, weights().to_bytes())
        await client.call("AskSampling", asking(weights().weights_id))
        recent = asking(await put(client, weights(1).to_bytes()))
        recent.session_key = "recent~weighted"
        await client.call("AskSampling", recent)
    os.utime(tmp_path / "work" / "weights" / f"{weights().weights_id.hex()}.tfqw", (0, 0))
    again = CoordinatorServer()
    await again.start(tmp_path / "work", "localhost:0")
    async with again, CoordinatorClient.connected(f"localhost:{again.bound_port}") as client:
        assert needed(again.coordinator) == {weights(1).weights_id}
        again.coordinator.weights._most_bytes = 2 * SIZE_BYTES
        await put(client, weights(2).to_bytes())
        assert on_disk(tmp_path) == {weights(1).weights_id, weights(2).weights_id}
        again.coordinator.weights._most_bytes = 10 * SIZE_BYTES
        await put(client, weights().to_bytes())
        await client.call("AskSampling", asking(weights().weights_id))
        assert needed(again.coordinator) == {weights().weights_id, weights(1).weights_id}


@on_loop
async def test_there_are_so_many_files_and_no_more(tmp_path: Path) -> None:
    in_use, root = set[bytes](), tmp_path / "weights"
    root.mkdir(mode=0o700)
    (root / "somebody's.tfqw").write_bytes(b"")
    ids = await three(WeightFiles(root, lambda: in_use, most_files=2))
    (root / "somebody's.tfqw").unlink()
    assert on_disk(tmp_path) == set(ids[1:])
    again = WeightFiles(root, lambda: in_use, most_files=2)
    await again.put(parts_of(weights(3).to_bytes()), DIGEST)
    in_use |= {ids[2], weights(3).weights_id}
    assert on_disk(tmp_path) == in_use
    with pytest.raises(errors.ResourceExhaustedError, match="and 2 files"):
        await again.put(parts_of(weights(4).to_bytes()), DIGEST)
    assert on_disk(tmp_path) == in_use
