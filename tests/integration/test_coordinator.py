"""A real coordinator on a Unix socket: data sets that are uploaded, and requests that cannot be right."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.aio import on_loop
from tests.support.coordinator_client import NODE, CoordinatorClient, Reader
from tests.support.digests import numbered_digest
from tfquiver import errors
from tfquiver.digests.file_entry import FileEntry
from tfquiver.disk_space_of_shards.entry_size import most_disk_bytes
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.coordinator.grpc_calls import checks
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.server import CoordinatorServer
from tfquiver.sizes_durations_amounts.amounts import of_bytes

DIGEST = numbered_digest(20)
MAX_DIGEST_BYTES = 100_000


def with_coordinator(test: Any) -> Any:
    """The test gets a client of a coordinator whose work directory is `tmp_path`."""

    @functools.wraps(test)
    async def run(tmp_path: Path, **kwargs: Any) -> None:
        server = CoordinatorServer()
        options = CoordinatorOptions(max_digest_bytes=MAX_DIGEST_BYTES)
        await server.start(tmp_path / "work", f"unix:{tmp_path}/socket", None, options)
        async with server, CoordinatorClient.connected(f"unix:{tmp_path}/socket") as client:
            await test(client, tmp_path, **kwargs)

    del run.__wrapped__
    return on_loop(run)


def left(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "work" / "digests").iterdir())


@with_coordinator
async def test_a_digest_is_found_by_every_name_and_comes_back_as_it_went(client: CoordinatorClient, base: Path) -> None:
    data, terms = DIGEST.to_bytes(), ListingTerms(CutPolicy(1, 2, 3), "gs=http://here")
    key = terms.key(DIGEST.files)
    uploaded = await client.upload([data[:100], b"", data[100:]], "mine", key, terms.message())
    assert (uploaded.digest_id, uploaded.shards, uploaded.name) == (DIGEST.digest_id, 20, "mine")
    for request in (
        pb.FindDatasetRequest(digest_id=DIGEST.digest_id),
        pb.FindDatasetRequest(listing_key=key),
        pb.FindDatasetRequest(name="mine"),
    ):
        assert await client.call("FindDataset", request) == uploaded
    assert await client.upload([data], "again") != uploaded
    assert [path.name for path in left(base)] == [f"{DIGEST.digest_id.hex()}.tfqd"]
    assert await client.digest(DIGEST.digest_id) == data


@with_coordinator
async def test_nobody_maps_a_listing_to_other_content(client: CoordinatorClient, base: Path) -> None:
    """Whoever may register could otherwise have every reader of `theirs` read his own records."""
    theirs = ListingTerms().key([FileEntry("gs://team/train-1", 100, "1")])
    mine = ListingTerms().key(DIGEST.files)
    data = DIGEST.to_bytes()
    for key, terms in [
        (theirs, ListingTerms().message()),
        (mine, None),
        (mine, ListingTerms(CutPolicy(1, 1, 1)).message()),
    ]:
        with pytest.raises(errors.InvalidArgumentError, match="listing_key: it is not that of the digest's own file"):
            await client.upload([data], "", key, terms)
        with pytest.raises(errors.NotFoundError):
            await client.call("FindDataset", pb.FindDatasetRequest(listing_key=key))
    assert left(base) == []
    with pytest.raises(errors.InvalidArgumentError, match="terms: shard sizes"):
        await client.upload([data], "", mine, types_pb2.ListingTerms(min_shard_bytes=5))


@with_coordinator
async def test_a_digest_that_is_damaged_on_disk_is_given_up_and_registered_again(
    client: CoordinatorClient, base: Path
) -> None:
    data, key = DIGEST.to_bytes(), ListingTerms().key(DIGEST.files)
    registered = await client.upload([data], "mine", key, ListingTerms().message())
    (path,) = left(base)
    path.write_bytes(_flipped(data, len(data) // 2))
    for request in (pb.FindDatasetRequest(digest_id=DIGEST.digest_id), pb.FindDatasetRequest(listing_key=key)):
        with pytest.raises(errors.NotFoundError):
            await client.call("FindDataset", request)
    assert left(base) == []
    assert await client.upload([data], "mine", key, ListingTerms().message()) == registered
    assert await client.call("FindDataset", pb.FindDatasetRequest(listing_key=key)) == registered


@with_coordinator
async def test_damaged_digests_are_refused_and_leave_nothing(client: CoordinatorClient, base: Path) -> None:
    data = DIGEST.to_bytes()
    damaged = [b"", b"garbage", data[:-1], data + b"\0", *(_flipped(data, at) for at in range(0, len(data), 97))]
    for upload in damaged:
        with pytest.raises(errors.InvalidArgumentError, match="part: "):
            await client.upload([upload])
    assert left(base) == []
    assert list((await client.call("ListDatasets", pb.ListDatasetsRequest())).datasets) == []
    await client.upload([data])


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@with_coordinator
async def test_an_upload_over_the_limit_is_refused_before_it_is_all_there(
    client: CoordinatorClient, base: Path
) -> None:
    with pytest.raises(errors.ResourceExhaustedError, match=f"{of_bytes(MAX_DIGEST_BYTES)}: see --max_digest_size"):
        await client.upload([bytes(60_000)] * 2)
    assert left(base) == []
    with pytest.raises(errors.ResourceExhaustedError, match=r"[Mm]essage"):
        await client.upload([bytes(9 << 20)])
    await client.upload([DIGEST.to_bytes()])


@with_coordinator
async def test_an_upload_that_breaks_off_leaves_nothing(client: CoordinatorClient, base: Path) -> None:
    begun = asyncio.Event()

    async def stalling() -> AsyncIterator[pb.RegisterDatasetRequest]:
        yield pb.RegisterDatasetRequest(part=DIGEST.to_bytes()[:50])
        begun.set()
        await asyncio.Event().wait()

    upload = asyncio.create_task(client.call("RegisterDataset", stalling()))
    await begun.wait()
    async with asyncio.timeout(10):
        await client.beat()
        upload.cancel()
        await asyncio.wait([upload])
    assert left(base) == []
    await client.upload([DIGEST.to_bytes()])
    assert len(left(base)) == 1


ID = DIGEST.digest_id
N = types_pb2.NodeInfo(node_id="n")
LONG = "x" * (checks.MAX_NAME_BYTES + 1)
REFUSED = [
    ("FindDataset", pb.FindDatasetRequest(), "digest_id, listing_key, name"),
    ("FindDataset", pb.FindDatasetRequest(digest_id=ID, name="both"), "digest_id, listing_key, name"),
    ("Heartbeat", pb.HeartbeatRequest(), "node.node_id: missing"),
    ("Heartbeat", pb.HeartbeatRequest(node=N), "incarnation: missing"),
    ("Heartbeat", pb.HeartbeatRequest(node=types_pb2.NodeInfo(node_id=LONG), incarnation="1"), "node.node_id: longer"),
    (
        "Heartbeat",
        pb.HeartbeatRequest(node=N, incarnation="1", inventory=pb.Inventory(added=[b"short"])),
        "inventory.added: 5 bytes",
    ),
    (
        "Heartbeat",
        pb.HeartbeatRequest(
            node=N, incarnation="1", inventory=pb.Inventory(removed=[b""] * (checks.MAX_INVENTORY_HASHES + 1))
        ),
        "inventory: 16385",
    ),
    ("Ticket", pb.TicketRequest(provider_id="p", digest_id=ID), "session_key: missing"),
    ("Ticket", pb.TicketRequest(session_key="k", digest_id=ID), "provider_id: missing"),
    ("Ticket", pb.TicketRequest(session_key="k", provider_id="p", digest_id=b"1"), "digest_id: 1 bytes"),
    ("OpenReader", pb.OpenReaderRequest(node_id="n", incarnation="1", digest_id=ID), "reader_id: missing"),
    ("OpenReader", pb.OpenReaderRequest(reader_id="r", incarnation="1", digest_id=ID), "node_id: missing"),
    (
        "OpenReader",
        pb.OpenReaderRequest(reader_id="r", node_id="n", incarnation="1", digest_id=ID, done_bitmap=b"x"),
        "done_bitmap: not 3 bytes",
    ),
    ("Lease", pb.LeaseRequest(max_shards=1), "sequence: 0"),
    ("Lease", pb.LeaseRequest(sequence=1), "max_shards: 0"),
    ("Lease", pb.LeaseRequest(sequence=1, max_shards=1025), "max_shards: 1025"),
    ("Lease", pb.LeaseRequest(sequence=1, max_shards=1, wait_ms=10_001), "wait_ms: 10001"),
]


@with_coordinator
async def test_what_cannot_be_right_is_named(client: CoordinatorClient, base: Path) -> None:
    await client.upload([DIGEST.to_bytes()])
    for method, request, message in REFUSED:
        with pytest.raises(errors.InvalidArgumentError, match=message):
            await client.call(method, request)
    sessions = await client.call("ListSessions", pb.ListSessionsRequest())
    assert not sessions.sessions


@with_coordinator
async def test_sessions_are_listed_by_key_the_newest_first(client: CoordinatorClient, base: Path) -> None:
    other = numbered_digest(5, "other")
    for digest in (DIGEST, other):
        await client.upload([digest.to_bytes()])
    made = []
    for number, (key, digest) in enumerate([("k", DIGEST), ("l", DIGEST), ("k", other)]):
        ticket = pb.TicketRequest(session_key=key, provider_id=f"p:{number}", digest_id=digest.digest_id)
        made.append((await client.call("Ticket", ticket)).session_id)
    for key, listed in (("k", [made[2], made[0]]), ("l", [made[1]]), ("m", []), ("", made[::-1])):
        reply = await client.call("ListSessions", pb.ListSessionsRequest(session_key=key))
        assert [session.session_id for session in reply.sessions] == listed


@with_coordinator
async def test_what_a_job_has_read_is_told_also_when_it_has_gone(client: CoordinatorClient, base: Path) -> None:
    await client.upload([DIGEST.to_bytes()])
    await client.beat()
    session_id = await client.ticket(DIGEST)
    told = await client.session(session_id)
    assert not told.HasField("read_bytes"), "no reader has said anything"
    reader = Reader(client, session_id, DIGEST, "r")
    await reader.open()
    report = pb.ReaderReport(session_id=session_id, reader_id="r", elapsed_us=1, hit_bytes=70, missed_bytes=30)
    for read_bytes in (0, 100):
        report.elapsed_us, report.records, report.bytes = 2_000_000 if read_bytes else 1, read_bytes, read_bytes
        node = types_pb2.NodeInfo(node_id=NODE, quota_bytes=1)
        await client.call("Heartbeat", pb.HeartbeatRequest(node=node, incarnation="1", readers=[report]))
    told = await client.session(session_id)
    assert (told.read_bytes, told.hit_bytes, told.missed_bytes) == (100, 70, 30)
    assert told.ideal_bytes_per_s == 50
    assert told.disk_bytes == int(most_disk_bytes(DIGEST.lengths).sum())
    await client.call("CloseReader", pb.CloseReaderRequest(session_id=session_id, reader_id="r"))
    told = await client.session(session_id)
    assert (told.read_bytes, told.HasField("ideal_bytes_per_s")) == (100, False)
    for within_ms, listed in ((60_000, 1), (1, 0), (0, 1)):
        await asyncio.sleep(0.01)
        reply = await client.call("ListSessions", pb.ListSessionsRequest(within_ms=within_ms))
        assert len(reply.sessions) == listed


@with_coordinator
async def test_a_session_of_another_data_set_is_refused(client: CoordinatorClient, base: Path) -> None:
    other = numbered_digest(5, "other")
    for digest in (DIGEST, other):
        await client.upload([digest.to_bytes()])
    session_id = await client.ticket(DIGEST)
    with pytest.raises(errors.InvalidArgumentError, match=f"digest_id: not that of session {session_id}"):
        await Reader(client, session_id, other, "r").open()
    with pytest.raises(errors.NotFoundError, match="no data set"):
        await Reader(client, session_id, numbered_digest(6), "r").open()


@with_coordinator
async def test_a_wait_ends_when_another_reader_leaves(client: CoordinatorClient, base: Path) -> None:
    await client.upload([DIGEST.to_bytes()])
    await client.beat()
    session_id = await client.ticket(DIGEST)
    first, second = (Reader(client, session_id, DIGEST, name) for name in ("first", "second"))
    await first.open()
    assert len((await first.lease(20)).leases) == 20
    await second.open()
    assert (await second.lease(20)).state == pb.LeaseReply.STATE_WAIT
    await client.call("CloseReader", pb.CloseReaderRequest(session_id=session_id, reader_id="first"))
    assert len((await second.lease(20)).leases) == 20


@with_coordinator
async def test_one_directory_has_one_coordinator(client: CoordinatorClient, base: Path) -> None:
    with pytest.raises(errors.AlreadyRunningError, match=f"{base}/work"):
        await CoordinatorServer().start(base / "work", f"unix:{base}/other")
    await client.beat()
