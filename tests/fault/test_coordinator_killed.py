"""The coordinator is killed, its log torn or damaged, its disk full: nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.aio import on_loop
from tests.support.cluster import Server
from tests.support.coordinator_client import CoordinatorClient, Reader
from tests.support.digests import numbered_digest
from tests.support.disks import tmpfs
from tests.support.privileges import needs_mounts
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.service.coordinator.commit_log.log_file import framed, header, parse
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.server import CoordinatorServer

NODE_TIMEOUT_S = 10.0
OPTIONS = CoordinatorOptions(node_timeout_s=NODE_TIMEOUT_S)


def coordinator(work_dir: Path, log: Path) -> Server:
    flags = ["--port=0", f"--work_dir={work_dir}", f"--node_timeout_ms={NODE_TIMEOUT_S * 1000:.0f}"]
    return Server("tfquiver.service.coordinator.main", flags, log)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = coordinator(tmp_path / "work", tmp_path / "log")
    yield server
    server.stop()


@on_loop
async def test_killed_three_times_in_a_session_every_shard_is_read_once(server: Server) -> None:
    server.start()
    digest = numbered_digest(600)
    emitted: Counter[int] = Counter()
    kill_at = {100, 250, 400}
    killing: list[asyncio.Future[Server]] = []

    def emit(shard: int) -> None:
        emitted[shard] += 1
        if emitted.total() in kill_at:
            server.process.send_signal(signal.SIGKILL)
            killing.append(asyncio.ensure_future(asyncio.to_thread(restart)))

    def restart() -> Server:
        server.kill()
        return server.restart()

    async with CoordinatorClient.connected(server.address) as client:
        await client.upload([digest.to_bytes()])
        await client.beat()
        session_id = await client.ticket(digest)
        beating = asyncio.create_task(client.beat_on(NODE_TIMEOUT_S / 5))
        try:
            readers = [Reader(client, session_id, digest, f"reader-{n}") for n in range(4)]
            async with asyncio.timeout(90):
                await asyncio.gather(*(reader.read(7, emit) for reader in readers))
                await asyncio.gather(*killing)
            session = await client.session(session_id)
        finally:
            beating.cancel()
            await asyncio.wait([beating])
    assert len(killing) == 3
    assert emitted == Counter(range(600))
    assert (session.acked, session.ended, session.shortfall) == (600, True, 0)


async def _filled(work_dir: Path, acks: int = 3) -> str:
    """A session of one reader, with so many records of acks at the end of the log; its id."""
    digest = numbered_digest(20)
    server = CoordinatorServer()
    await server.start(work_dir, "localhost:0", None, OPTIONS)
    async with server, CoordinatorClient.connected(f"localhost:{server.bound_port}") as client:
        await client.upload([digest.to_bytes()])
        session_id = await client.ticket(digest)
        reader = Reader(client, session_id, digest, "reader")
        await reader.open()
        shards = [lease.shard for lease in (await reader.lease(20)).leases]
        for shard in shards[:acks]:
            await reader.ack([shard])
    return session_id


@on_loop
async def test_a_log_torn_at_every_byte_of_its_last_record_starts(tmp_path: Path) -> None:
    session_id = await _filled(tmp_path / "work")
    log = (tmp_path / "work" / "commit.log").read_bytes()
    records, end = parse(log, "log")
    assert end == len(log)
    assert records.pop().WhichOneof("record") == "time_passed", "one that stops says for how long it was up"
    assert records[-1].WhichOneof("record") == "shards_acked"
    whole = len(header()) + sum(len(framed(record)) for record in records)
    for size in range(whole - len(framed(records[-1])), whole + 1):
        work_dir = tmp_path / f"torn-{size}"
        shutil.copytree(tmp_path / "work", work_dir)
        os.truncate(work_dir / "commit.log", size)
        server = CoordinatorServer()
        await server.start(work_dir, f"unix:{tmp_path}/{size}", None, OPTIONS)
        async with server, CoordinatorClient.connected(f"unix:{tmp_path}/{size}") as client:
            assert (await client.session(session_id)).acked == (3 if size == whole else 2)


@on_loop
async def test_a_log_damaged_in_its_middle_is_refused_by_name_and_offset(tmp_path: Path) -> None:
    await _filled(tmp_path / "work")
    path = tmp_path / "work" / "commit.log"
    data = bytearray(path.read_bytes())
    offset = len(header()) + len(framed(parse(bytes(data), "log")[0][0]))
    data[offset + 12] ^= 1
    path.write_bytes(data)
    for _ in range(2):  # the directory is let go: the second attempt says the same
        with pytest.raises(errors.DataLossError, match=f"{path}: offset {offset}: damaged"):
            await CoordinatorServer().start(tmp_path / "work", "localhost:0")
    with pytest.raises(RuntimeError, match=f"{path}: offset {offset}: damaged"):
        coordinator(tmp_path / "work", tmp_path / "log").start()
    assert path.read_bytes() == data


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with tmpfs(tmp_path / "disk", 1 << 20) as mounted:
        yield mounted


async def _ack_until_refused(client: CoordinatorClient, session_id: str, shards: list[int]) -> list[int]:
    """Those that were acknowledged, one a call."""
    for at, shard in enumerate(shards):
        try:
            request = pb.AckRequest(session_id=session_id, reader_id="reader", shards=[shard])
            await client.call("Ack", request)
        except errors.UnavailableError as error:  # which a node repeats until its patience ends
            assert "make room for the commit log" in str(error)
            return shards[:at]
    pytest.fail("the disk is not full")


@asynccontextmanager
async def _leasing(server: Server, leased: int, digest: Digest) -> AsyncIterator[tuple[CoordinatorClient, str, Reader]]:
    """The server is started; a session's only reader holds that many shards."""
    server.start()
    async with CoordinatorClient.connected(server.address) as client:
        await client.upload([digest.to_bytes()])
        await client.beat()
        session_id = await client.ticket(digest)
        reader = Reader(client, session_id, digest, "reader")
        await reader.open()
        reader.held = [lease.shard for lease in (await reader.lease(leased)).leases]
        yield client, session_id, reader


@on_loop
async def test_what_a_lease_acknowledged_is_not_handed_out_again(server: Server) -> None:
    async with _leasing(server, 60, numbered_digest(100)) as (client, session_id, reader):
        shards = reader.held
        reply = await reader.lease(1, acked=shards)
        assert reply.acks_durable
        server.kill()
        server.restart()
        assert (await client.session(session_id)).acked == 60
        reader.held = [lease.shard for lease in reply.leases]
        assert not {lease.shard for lease in (await reader.lease(100)).leases} & set(shards)


async def _full_disk(server: Server, fill: Callable[[], None], free: Callable[[], None], restart_full: bool) -> None:
    digest = numbered_digest(1000)
    async with _leasing(server, 1000, digest) as (client, session_id, reader):
        shards = reader.held
        await client.call("Ack", pb.AckRequest(session_id=session_id, reader_id="reader", shards=shards[:500]))
        fill()
        acked = 500 + len(await _ack_until_refused(client, session_id, shards[500:]))
        with pytest.raises(errors.UnavailableError, match="make room for the commit log"):
            await client.ticket(digest, "p:2")
        told = await client.call("ListNodes", pb.ListNodesRequest())
        assert told.log_trouble.endswith(": make room for the commit log"), "as tfquiver status says it"
        with pytest.raises((errors.ResourceExhaustedError, errors.UnavailableError)):
            await client.upload([numbered_digest(5000, "other").to_bytes()])
        await client.beat()
        assert server.running
        if restart_full:
            server.kill()
            server.restart()
            assert (await client.session(session_id)).acked == acked
        free()
        reader.held = shards[acked:]
        await reader.open()
        await reader.ack(shards[acked:])
        assert (await client.session(session_id)).acked == 1000
        assert not (await client.call("ListNodes", pb.ListNodesRequest())).log_trouble
        server.kill()
        server.restart()
        assert (await client.session(session_id)).acked == 1000


@needs_mounts
@on_loop
async def test_a_full_disk_refuses_decisions_and_loses_none(small_disk: Path, tmp_path: Path) -> None:
    server = coordinator(small_disk / "work", tmp_path / "log")
    filler = small_disk / "filler"

    def fill() -> None:
        with pytest.raises(OSError, match="No space left"), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    try:
        await _full_disk(server, fill, filler.unlink, restart_full=True)
    finally:
        server.stop()


@on_loop
async def test_a_log_that_may_not_grow_refuses_decisions_and_loses_none(server: Server, tmp_path: Path) -> None:
    def limit(size_bytes: int) -> None:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))

    def fill() -> None:
        limit((tmp_path / "work" / "commit.log").stat().st_size + 50)

    await _full_disk(server, fill, lambda: limit(resource.RLIM_INFINITY), restart_full=False)
