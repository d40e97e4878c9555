"""What an outside scheduler says: how much of a data set is kept, and what jobs may read from the store."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.cluster import Server
from tests.support.coordinator_client import CoordinatorClient, new_coordinator
from tests.support.digests import numbered_digest
from tfquiver import errors
from tfquiver.cli.main import main
from tfquiver.digests import formats
from tfquiver.digests.digest import Digest
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2

DIGEST = numbered_digest(500)
SIZE_BYTES = int(most_disk_bytes(DIGEST.lengths).sum())
NONE, UNIFORM = types_pb2.CACHE_MODE_NONE, types_pb2.CACHE_MODE_UNIFORM
COOPERATIVE = types_pb2.CACHE_MODE_COOPERATIVE


@asynccontextmanager
async def started(directory: Path) -> AsyncIterator[CoordinatorClient]:
    async with new_coordinator(directory) as client:
        node = types_pb2.NodeInfo(node_id="node", quota_bytes=2 * SIZE_BYTES)
        await client.call("Heartbeat", pb.HeartbeatRequest(node=node, incarnation="1"))
        yield client


def cache(allocation_bytes: int) -> pb.AllocateCacheSizeRequest:
    return pb.AllocateCacheSizeRequest(digest_id=DIGEST.digest_id, allocation_bytes=allocation_bytes)


@on_loop
async def test_bytes_for_a_data_set_say_how_it_is_kept_and_stay_within_the_quotas(tmp_path: Path) -> None:
    async with started(tmp_path) as client:
        with pytest.raises(errors.NotFoundError):
            await client.call("AllocateCacheSize", cache(1))
        await client.upload([DIGEST.to_bytes()])
        for allocation_bytes, mode in (
            (SIZE_BYTES, UNIFORM), (SIZE_BYTES // 2, COOPERATIVE), (5000, UNIFORM), (0, NONE)
        ):  # fmt: skip
            fixed = await client.call("AllocateCacheSize", cache(allocation_bytes))
            assert (fixed.mode, fixed.allocation_bytes, fixed.decided_by) == (mode, allocation_bytes, "")
            assert fixed == await client.call("GetCache", pb.GetCacheRequest(digest_id=DIGEST.digest_id))
        with pytest.raises(errors.ResourceExhaustedError, match="allocation_bytes"):
            await client.call("AllocateCacheSize", cache(3 * SIZE_BYTES))
        with pytest.raises(errors.InvalidArgumentError, match="allocation_bytes"):
            await client.call("AllocateCacheSize", cache(1 << 63))


@on_loop
async def test_chunks_stay_where_only_the_bytes_change(tmp_path: Path) -> None:
    async with started(tmp_path) as client:
        await client.upload([DIGEST.to_bytes()])
        setting = types_pb2.CacheSetting(
            mode=COOPERATIVE, rotation="cyclic", chunks=17, allocation_bytes=SIZE_BYTES // 4
        )
        first = await client.call("SetCache", pb.SetCacheRequest(digest_id=DIGEST.digest_id, setting=setting))
        reader = pb.OpenReaderRequest(
            reader_id="r", node_id="node", incarnation="1", digest_id=DIGEST.digest_id, job="job"
        )
        await client.call("OpenReader", reader)  # from now on there are chunks
        second = await client.call("AllocateCacheSize", cache(SIZE_BYTES * 3 // 4))
        assert (second.chunks, second.rotation) == (17, "cyclic") == (first.chunks, first.rotation)
        assert second.allocation_bytes == SIZE_BYTES * 3 // 4
        (orders,) = (await client.call("Orders", pb.OrdersRequest())).orders
        assert orders.setting == second
        small = await client.call("AllocateCacheSize", cache(SIZE_BYTES // 12))
        assert small.chunks > 17, "in which no two of them have room"


@on_loop
async def test_chunks_do_not_rotate_for_files_that_have_no_records(tmp_path: Path) -> None:
    """There are no sessions over them: nothing would ever be loaded, and nothing that a mount reads kept."""
    columns = DIGEST.hashes, DIGEST.file_index, DIGEST.offsets, DIGEST.lengths
    files = Digest.build("images", DIGEST.files, *columns, [0] * DIGEST.num_shards, formats.BYTES)
    async with started(tmp_path) as client:
        await client.upload([files.to_bytes()])
        setting = types_pb2.CacheSetting(mode=COOPERATIVE, allocation_bytes=SIZE_BYTES // 2)
        with pytest.raises(
            errors.InvalidArgumentError, match=r"cooperative: .* this data set has none .*; give a size alone"
        ):
            await client.call("SetCache", pb.SetCacheRequest(digest_id=files.digest_id, setting=setting))
        request = pb.AllocateCacheSizeRequest(digest_id=files.digest_id, allocation_bytes=SIZE_BYTES // 2)
        fixed = await client.call("AllocateCacheSize", request)
        assert (fixed.mode, fixed.allocation_bytes) == (UNIFORM, SIZE_BYTES // 2)


@on_loop
async def test_rates_survive_and_nonsense_is_refused(tmp_path: Path) -> None:
    async def told(client: CoordinatorClient) -> list[tuple[str, float, bool]]:
        reply = await client.call("ListRemoteIO", pb.ListRemoteIORequest())
        return [(one.job, one.allocated_bytes_per_s, one.pinned) for one in reply.jobs]

    async with started(tmp_path) as client:
        for job, rate, field in (
            ("", 1.0, "job: missing"), ("x" * 600, 1.0, "job: longer"), ("a", -1.0, "bytes_per_s: -1"),
            ("a", math.nan, "bytes_per_s: nan"), ("a", math.inf, "bytes_per_s: inf"),
        ):  # fmt: skip
            with pytest.raises(errors.InvalidArgumentError, match=field):
                await client.call("AllocateRemoteIO", pb.AllocateRemoteIORequest(job=job, bytes_per_s=rate))
        for job, rate in (("b", 2.0), ("a", 5e8), ("gone", 1.0), ("gone", 0.0), ("never", 0.0)):
            await client.call("AllocateRemoteIO", pb.AllocateRemoteIORequest(job=job, bytes_per_s=rate))
        assert await told(client) == [("a", 5e8, True), ("b", 2.0, True)]
    async with started(tmp_path) as client:
        assert await told(client) == [("a", 5e8, True), ("b", 2.0, True)]


def test_limits_as_a_person_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--port=0", f"--work_dir={tmp_path / 'coordinator'}"]
    coordinator = Server("tfquiver.service.coordinator.main", arguments, tmp_path / "log").start()

    def tool(*words: str) -> tuple[int, str]:
        code = main([*words, "--service", coordinator.address])
        out, err = capsys.readouterr()
        return code, out + err

    try:
        nobody = (
            "tfquiver: no job of that name reads now, or has lately: this is kept for one that comes; known are none\n"
        )
        limited = "job bert reads at most 50.0 MB/s from the object store\n"
        assert tool("limit", "bert", "50MB") == (0, limited + nobody), "a name that is misspelt looks like this"
        assert tool("limit", "bert", "50 MB/s") == (0, limited + nobody), "as status shows it"
        assert tool("limit", "other", "1GiB")[0] == 0
        for wrong in ("fast", "0", "50", "50MB/h"):
            code, said = tool("limit", "bert", wrong)
            assert code == 1 and said.startswith("tfquiver: RATE: ") and said.count("\n") == 1
        assert "bert" in (shown := tool("status")[1]) and "50.0 MB/s" in shown and "a person" in shown
        assert tool("limit", "bert", "none") == (
            0,
            "job bert reads as much as it can from the object store; it was limited to 50.0 MB/s\n"
            + nobody.replace("this is", "nothing is"),
        )
        assert "object store; it had no limit\n" in tool("limit", "bert", "none")[1]
        assert "bert" not in tool("status")[1]
        asyncio.run(begin(coordinator.address, {"bert": "k", "job-0123456789ab": "0123456789ab" + "0" * 20 + "-train"}))
        assert tool("limit", "bert", "50MB") == (0, limited), "it reads"
        assert tool("limit", "brt", "50MB")[1].endswith("; known are 'bert', 'train-0123'\n")
        assert tool("limit", "train-0123", "20MB")[1].count("\n") == 1, "as status shows one without a name"
        assert "job-0123456789ab" in tool("status")[1], "and as its rate is kept"
    finally:
        assert coordinator.stop() == 0


async def begin(address: str, jobs: dict[str, str]) -> None:
    """An epoch of each job; `jobs`: name -> session key."""
    async with CoordinatorClient.connected(address) as client:
        await client.upload([DIGEST.to_bytes()])
        for job, key in jobs.items():
            ticket = pb.TicketRequest(session_key=key, provider_id="p:1", digest_id=DIGEST.digest_id, job=job)
            await client.call("Ticket", ticket)
