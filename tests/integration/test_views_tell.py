"""What `tfquiver status` and `explain` are told by a real coordinator while a job reads, and when it has finished."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_client import CoordinatorClient, new_coordinator
from tests.support.digests import numbered_digest
from tfquiver.cli.main import main
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2

DATA = numbered_digest(40, "train")
BYTES = int(DATA.lengths.sum())


@asynccontextmanager
async def started(directory: Path) -> AsyncIterator[CoordinatorClient]:
    """With a node, and the data set."""
    async with new_coordinator(directory) as client:
        await beats(client)
        await client.upload([DATA.to_bytes()], name="train")
        yield client


async def beats(client: CoordinatorClient, *reports: pb.ReaderReport, inventory: pb.Inventory | None = None) -> None:
    node = types_pb2.NodeInfo(node_id="node", quota_bytes=1 << 30)
    request = pb.HeartbeatRequest(node=node, incarnation="1", readers=reports, inventory=inventory)
    await client.call("Heartbeat", request)


async def opens(client: CoordinatorClient, job: str = "train-1") -> str:
    request = pb.OpenReaderRequest(
        reader_id="reads", node_id="node", incarnation="1", digest_id=DATA.digest_id, job=job, session_key=job
    )
    return str((await client.call("OpenReader", request)).session_id)


async def leases(client: CoordinatorClient, session_id: str, sequence: int, shards: int) -> list[int]:
    request = pb.LeaseRequest(
        session_id=session_id, reader_id="reads", sequence=sequence, max_shards=shards, max_bytes=1 << 40, wait_ms=5000
    )
    return [lease.shard for lease in (await client.call("Lease", request)).leases]


def report(session_id: str, share: float, second: int) -> pb.ReaderReport:
    """`share` of the data set has been delivered."""
    size = int(share * BYTES)
    return pb.ReaderReport(
        session_id=session_id, reader_id="reads", records=second, bytes=size, missed_bytes=size,
        elapsed_us=second * 10**6, waited_us=second * 990_000,
    )  # fmt: skip


async def listed(client: CoordinatorClient) -> pb.SessionInfo:
    (info,) = (await client.call("ListSessions", pb.ListSessionsRequest())).sessions
    assert isinstance(info, pb.SessionInfo)
    return info


@on_loop
async def test_an_epoch_is_read_long_before_it_is_confirmed(tmp_path: Path) -> None:
    async with started(tmp_path) as client:
        session_id = await opens(client)
        shards = await leases(client, session_id, 1, 40)
        assert len(shards) == 40, "a small data set: all is handed out at once"
        info = await listed(client)
        assert (info.read, info.acked, info.leased) == (0, 0, 40)
        await beats(client, report(session_id, 0.5, 2))
        info = await listed(client)
        assert (info.acked, info.leased) == (0, 40)
        assert 19 <= info.read <= 20
        await client.call("Ack", pb.AckRequest(session_id=session_id, reader_id="reads", shards=shards[:10]))
        info = await listed(client)
        assert info.acked == 10 and 19 <= info.read <= 20


@on_loop
async def test_what_readers_ask_for_at_a_time_is_told_and_the_most_of_it_counts(tmp_path: Path) -> None:
    async with started(tmp_path) as client:
        session_id = await opens(client)
        assert (await listed(client)).window_bytes == 0, "none has asked"
        for sequence, size_bytes in enumerate((1000, 5000, 2000), 1):
            request = pb.LeaseRequest(
                session_id=session_id, reader_id="reads", sequence=sequence, max_shards=1, max_bytes=size_bytes
            )
            await client.call("Lease", request)
        assert (await listed(client)).window_bytes == 5000


@on_loop
async def test_how_much_of_a_data_set_is_cached(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def only() -> types_pb2.Dataset:
        (one,) = (await client.call("ListDatasets", pb.ListDatasetsRequest())).datasets
        assert isinstance(one, types_pb2.Dataset)
        return one

    async with started(tmp_path) as client:
        assert not (await only()).HasField("resident_bytes"), "nobody has read it"
        session_id = await opens(client)
        assert (await only()).resident_bytes == 0
        hashes = [bytes(one) for one in DATA.hashes[:30]]
        await beats(client, inventory=pb.Inventory(full=True, version=1, added=hashes))
        there = int(DATA.lengths[:30].sum())
        one = await only()
        assert (one.resident_bytes, one.resident_shards, one.resident_age_ms) == (there, 30, 0)
        told = json.loads((await client.call("Explain", pb.ExplainRequest(name="train"))).json)["resident"]
        assert (told["resident_bytes"], told["size_bytes"], told["age_s"]) == (there, BYTES, 0)
        where = ["--service", f"unix:{tmp_path}/socket"]
        assert await asyncio.to_thread(main, ["explain", "train", *where]) == 0
        assert f"cached now: {100 * there / BYTES:.0f}% of the data set" in capsys.readouterr().out
        assert await asyncio.to_thread(main, ["dataset", "list", *where]) == 0
        assert f" {100 * there / BYTES:.0f}% " in capsys.readouterr().out
        await client.call("CloseReader", pb.CloseReaderRequest(session_id=session_id, reader_id="reads"))
        async with asyncio.timeout(20):
            while not (one := await only()).resident_age_ms:
                await asyncio.sleep(0.05)
        assert one.resident_bytes == there, "as it was"


@on_loop
async def test_a_job_without_a_name_is_explained_by_the_one_that_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with started(tmp_path) as client:
        digits = "0123456789ab"
        request = pb.OpenReaderRequest(
            reader_id="reads", node_id="node", incarnation="1", digest_id=DATA.digest_id, job=f"job-{digits}",
            session_key=f"{digits}{'0' * 20}-program",
        )  # fmt: skip
        await client.call("OpenReader", request)
        where = ["--service", f"unix:{tmp_path}/socket"]
        assert await asyncio.to_thread(main, ["explain", "program-0123", *where]) == 0
        assert "job program-0123, by policy benefit" in capsys.readouterr().out
        assert await asyncio.to_thread(main, ["explain", "train", *where]) == 0
        assert "\n  program-0123: not probed yet" in capsys.readouterr().out
        assert await asyncio.to_thread(main, ["explain", "program-0123", "--json", *where]) == 0
        assert json.loads(capsys.readouterr().out)["name"] == f"job-{digits}", "what other calls take"
        assert await asyncio.to_thread(main, ["explain", "program-4567", *where]) == 1
        assert "known are 'program-0123', 'train (" in capsys.readouterr().err


@on_loop
async def test_of_a_data_set_that_nobody_reads_it_is_said_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was an error: no data set of that name is read."""
    async with started(tmp_path):
        where = ["--service", f"unix:{tmp_path}/socket"]
        assert await asyncio.to_thread(main, ["explain", "train", *where]) == 0
        assert "data set train: nobody reads it now, and nothing is decided about it" in capsys.readouterr().out
        assert await asyncio.to_thread(main, ["explain", "train", "--json", *where]) == 0
        assert json.loads(capsys.readouterr().out) == {"kind": "dataset", "name": "train", "decided": False}
        assert await asyncio.to_thread(main, ["explain", "trian", *where]) == 1
        assert "no data set of that name is read" in capsys.readouterr().err
