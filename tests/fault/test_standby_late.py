"""A coordinator that was stopped for longer than its lock lasts, and replaced meanwhile, goes on: it hands out nothing.

As on a network file system whose server gives the lock to another. Calls that came while it was stopped wait at its
door, and are the first that it sees.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from tests.support.aio import on_loop
from tests.support.cluster import Server
from tests.support.coordinator_client import CoordinatorClient, Reader
from tests.support.digests import numbered_digest
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc
from tfquiver.service.coordinator.commit_log.work_dir import TRUSTED_S

LATE_S = 20


@on_loop
async def test_who_was_stopped_and_replaced_meanwhile_grants_no_lease(tmp_path: Path) -> None:
    work_dir, module = tmp_path / "work", "tfquiver.service.coordinator.main"
    first = Server(module, [f"--work_dir={work_dir}", "--port=0"], tmp_path / "first.log").start()
    second = Server(module, [f"--work_dir={work_dir}", "--port=0", "--standby"], tmp_path / "second.log").launch()
    try:
        digest = numbered_digest(200)
        async with CoordinatorClient.connected(first.address) as client, rpc.aio_channel(first.address) as channel:
            await client.upload([digest.to_bytes()], "data")
            await client.beat()
            session_id = await client.ticket(digest)
            reader = Reader(client, session_id, digest, "a")
            await reader.open()
            held = [lease.shard for lease in (await reader.lease(4)).leases]
            assert len(held) == 4
            os.kill(first.process.pid, signal.SIGSTOP)
            (work_dir / "lock").rename(work_dir / "lock of the first")  # the file server has forgotten it
            (work_dir / "lock").write_bytes((work_dir / "lock of the first").read_bytes())
            await asyncio.to_thread(second.await_ready)
            stub = coordinator_pb2_grpc.CoordinatorStub(channel)
            asked = [
                asyncio.ensure_future(stub.Lease(
                    pb.LeaseRequest(
                        session_id=session_id, reader_id="a", sequence=sequence, max_shards=4, max_bytes=1 << 40
                    ),
                    timeout=TRUSTED_S + LATE_S,
                )) for sequence in range(2, 12)
            ]  # fmt: skip
            await asyncio.sleep(TRUSTED_S + 1)  # as long as it was away, at least
            os.kill(first.process.pid, signal.SIGCONT)
            told = await asyncio.gather(*asked, return_exceptions=True)
            granted = [lease.shard for one in told if isinstance(one, pb.LeaseReply) for lease in one.leases]
            assert granted == [], "by one who has been replaced"
            assert await asyncio.to_thread(first.process.wait, LATE_S) == 1
            assert "another coordinator has taken over" in first.log_tail()
        async with CoordinatorClient.connected(second.address) as client:
            reader = Reader(client, session_id, digest, "a")
            reader.held = held
            await client.beat()
            seen = list(held)
            await reader.read(8, seen.append)
            assert sorted(seen) == list(range(200)), "each once"
    finally:
        first.kill()
        second.stop()
