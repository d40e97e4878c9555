"""A real node with its own coordinator, and readers that speak the socket: every record exactly once, whoever reads."""

from __future__ import annotations

import itertools
import os
import random
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.support import node_calls, records
from tests.support.cluster import Server, wait_until
from tests.support.reader_client import Connection, ReaderClient, ReaderGoneError
from tests.support.started_nodes import StartNode, nodes_started
from tfquiver import errors
from tfquiver.messages_and_binary_formats import reader_frames as frames
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.cutting import CutPolicy

SMALL = CutPolicy(2_000, 8_000, 32_000)
ONE_RECORD = CutPolicy(1, 1, 1)


@pytest.fixture(scope="module")
def payloads(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes]]:
    """(directory of three files, their records)."""
    directory = tmp_path_factory.mktemp("data")
    rng = random.Random(1)
    made = [b"%06d " % n + rng.randbytes(rng.randrange(400)) for n in range(3000)]
    for part in range(3):
        (directory / f"train-{part}").write_bytes(records.stream(made[part::3]))
    return directory, made


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartNode]:
    with nodes_started(tmp_path) as start:
        yield start


@pytest.fixture
def node(start: StartNode) -> Server:
    return start()


def reader(node: Server, dataset: types_pb2.Dataset, **options: object) -> ReaderClient:
    return ReaderClient(node.ready["socket"], dataset.digest_id, **options)  # type: ignore[arg-type]


def read_all(client: ReaderClient) -> list[bytes]:
    found = list(client.records())
    client.close()
    return found


def together(*works: Callable[[], None]) -> None:
    """Runs them in threads; the first failure is raised here."""
    with ThreadPoolExecutor(len(works)) as pool:
        for future in [pool.submit(work) for work in works]:
            future.result(60)


@pytest.mark.parametrize("policy", [SMALL, ONE_RECORD, CutPolicy()], ids=["small", "one-record", "whole-file"])
def test_every_record_once_for_readers_and_sessions_at_the_same_time(
    node: Server, payloads: tuple[Path, list[bytes]], policy: CutPolicy
) -> None:
    directory, made = payloads
    dataset = node_calls.ensure(node.ready["control"], directory / "train-*", policy)
    assert dataset.records == len(made)
    found: dict[int, list[bytes]] = {}
    works: list[Callable[[], None]] = []
    for readers in (1, 2, 3):
        session = node_calls.ticket(node.ready["coordinator"], dataset, f"key-{readers}")
        found[readers] = []

        def work(session: str = session, into: list[bytes] = found[readers], hold_back: int = readers) -> None:
            into += read_all(reader(node, dataset, session_id=session, credit_bytes=100_000, hold_back=hold_back))

        works += [work] * readers
    together(*works)
    for seen in found.values():
        assert Counter(seen) == Counter(made)
    for info in node_calls.sessions(node.ready["coordinator"]):
        assert (info.ended, info.acked, info.shortfall, info.reread) == (True, dataset.shards, 0, 0), info


def test_a_warm_node_reads_nothing_from_the_store_after_a_restart(
    node: Server, payloads: tuple[Path, list[bytes]]
) -> None:
    directory, made = payloads
    dataset = node_calls.ensure(node.ready["control"], directory / "train-*", SMALL)
    node.kill()
    node.start()
    assert node_calls.ensure(node.ready["control"], directory / "train-*", SMALL) == dataset
    assert Counter(read_all(reader(node, dataset))) == Counter(made)
    status = node_calls.status(node.ready["control"])
    assert (status.hits, status.misses, status.store_bytes) == (dataset.shards, 0, 0)
    assert status.served_bytes == dataset.size_bytes
    assert status.entries == dataset.shards


def test_a_digest_damaged_at_the_coordinator_is_mended_with_the_nodes_copy(
    node: Server, payloads: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    directory, made = payloads
    dataset = node_calls.ensure(node.ready["control"], directory / "train-*", SMALL)
    assert Counter(read_all(reader(node, dataset))) == Counter(made)
    node.kill()
    (digest,) = (path for path in tmp_path.rglob("*.tfqd") if "coordinator" in path.parts)
    sound = digest.read_bytes()
    digest.write_bytes(sound[: len(sound) // 2] + bytes([sound[len(sound) // 2] ^ 1]) + sound[len(sound) // 2 + 1 :])
    node.start()
    assert Counter(read_all(reader(node, dataset))) == Counter(made)
    assert digest.read_bytes() == sound


def test_a_reader_that_vanishes_gives_its_shards_back(node: Server, payloads: tuple[Path, list[bytes]]) -> None:
    directory, made = payloads
    dataset = node_calls.ensure(node.ready["control"], directory / "train-*", SMALL)
    session = node_calls.ticket(node.ready["coordinator"], dataset, "key")
    lost = reader(node, dataset, session_id=session)
    emitted = list(itertools.islice(lost.records(), 200))
    lost.connection.close()
    found = read_all(reader(node, dataset, session_id=session))
    assert set(found) | set(emitted) == set(made)
    repeated = Counter(found + emitted) - Counter(made)
    assert set(repeated) <= set(emitted), "only what it had not acknowledged is read again"
    (info,) = node_calls.sessions(node.ready["coordinator"])
    assert info.ended
    assert info.shortfall == 0


@pytest.mark.long
def test_a_reader_that_does_not_read_does_not_hold_others(node: Server, payloads: tuple[Path, list[bytes]]) -> None:
    directory, made = payloads
    dataset = node_calls.ensure(node.ready["control"], directory / "train-*", ONE_RECORD)
    stuck = reader(node, dataset, credit_bytes=1 << 40)  # has credit for everything, and never looks
    assert Counter(read_all(reader(node, dataset))) == Counter(made)
    assert Counter(read_all(stuck)) == Counter(made)


def test_a_damaged_entry_is_found_by_the_reader_and_got_again(
    start: StartNode, payloads: tuple[Path, list[bytes]]
) -> None:
    node = start("--codec=raw")
    directory, made = payloads
    dataset = node_calls.ensure(node.ready["control"], directory / "train-*", CutPolicy())
    entries = [p for p in Path(node.ready["socket"]).parent.parent.glob("objects/*/*/*") if p.is_file()]
    assert len(entries) == dataset.shards
    for path in entries:
        with path.open("r+b") as file:
            file.seek(5000)
            file.write(b"\xff damaged \xff")
    client = reader(node, dataset)
    assert Counter(read_all(client)) == Counter(made)
    assert client.bad_shards == dataset.shards
    assert node_calls.status(node.ready["control"]).corrupt_entries == dataset.shards


def test_an_object_that_changed_is_named_and_the_other_shards_go_on(start: StartNode, tmp_path: Path) -> None:
    node = start("--quota=0")
    for part in range(2):
        made = [b"%d-%d" % (part, n) * 20 for n in range(500)]
        (tmp_path / f"part-{part}").write_bytes(records.stream(made))
    dataset = node_calls.ensure(node.ready["control"], tmp_path / "part-*", SMALL)
    (tmp_path / "part-1").write_bytes(records.stream([b"other"] * 500))
    client = reader(node, dataset)
    seen: list[bytes] = []
    with pytest.raises(errors.TfquiverError, match="part-1"):
        for record in client.records():
            seen.append(record)
    client.close(complete=False)
    assert {r for r in seen if r.startswith(b"0-")} == {b"0-%d" % n * 20 for n in range(500)}
    assert not any(r.startswith(b"other") for r in seen)
    assert "part-1" in client.told[0].message
    assert not client.told[0].fatal
    assert node.running


def test_garbage_on_the_socket_closes_that_connection_only(node: Server, payloads: tuple[Path, list[bytes]]) -> None:
    directory, made = payloads
    dataset = node_calls.ensure(node.ready["control"], directory / "train-*", SMALL)
    rng = random.Random(7)
    hello = frames.encode(frames.Hello(0, 1, ""))
    opening = frames.encode(frames.Open("", "k", dataset.digest_id, "j", "fuzz", 1 << 20, frames.Wish(), False))
    sound = [hello, opening, frames.encode(frames.Credit(5)), frames.encode(frames.Ack((1, 2)))]
    for attempt in range(200):
        with Connection(node.ready["socket"]) as connection:
            sending = [hello, opening] if attempt % 2 else []
            for _ in range(3):
                frame = bytearray(rng.choice(sound))
                frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
                sending.append(bytes(frame) if attempt % 3 else rng.randbytes(rng.randrange(1, 70_000)))
            sending.append(struct.pack("<HBBI", frames.MAGIC, 9, 1, 0))
            complaint = _last_words(connection, sending)
            assert complaint is None or complaint.fatal
    assert Counter(read_all(reader(node, dataset))) == Counter(made)
    status = node_calls.status(node.ready["control"])
    assert status.readers == 0 or node.running
    process = psutil.Process(node.process.pid)
    wait_until(lambda: process.num_fds() < 60, "descriptors are closed again")


def _last_words(connection: Connection, messages: list[bytes]) -> frames.Error | None:
    for message in messages:
        try:
            connection.sock.send(message)
        except OSError:
            break
    said = None
    try:
        while True:
            frame, descriptor = connection.receive()
            if descriptor >= 0:
                os.close(descriptor)
            said = frame if isinstance(frame, frames.Error) else said
    except ReaderGoneError:
        return said


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (frames.Credit(1), "first must be HELLO"),
        (frames.Open("", "k", b"\1" * 32, "j", "r", 1, frames.Wish(), True), "descriptor"),
        (frames.Open("", "k", b"\1" * 32, "j", "", 1, frames.Wish(), False), "reader_id"),
        (frames.Open("", "k", b"\1" * 32, "j", "r", 1, frames.Wish(), False), "01010101"),
        (frames.Open("no such", "k", b"\1" * 32, "j", "r", 1, frames.Wish(), False), "01010101"),
    ],
)
def test_complaints_name_what_is_wrong(node: Server, frame: frames.Frame, complaint: str) -> None:
    with Connection(node.ready["socket"]) as connection:
        if not isinstance(frame, frames.Credit):
            connection.hello()
        connection.send(frame)
        said, _ = connection.receive()
        assert isinstance(said, frames.Error)
        assert said.fatal
        assert complaint in said.message
        with pytest.raises(ReaderGoneError):
            connection.receive()


def test_tickets_are_given_over_the_socket(node: Server, payloads: tuple[Path, list[bytes]]) -> None:
    directory, made = payloads
    dataset = node_calls.ensure(node.ready["control"], directory / "train-*", SMALL)
    with Connection(node.ready["socket"]) as provider:
        provider.hello(frames.ROLE_TICKETS)
        ask = frames.Ticket("key", "provider", 0, False, dataset.digest_id, "job")
        provider.send(ask)
        given, _ = provider.receive()
        assert isinstance(given, frames.TicketReply)
        assert not given.end
        assert Counter(read_all(reader(node, dataset, session_id=given.session_id))) == Counter(made)
        provider.send(ask)
        assert provider.receive()[0] == frames.TicketReply(True, "")
        provider.send(frames.Ticket("key", "other", 0, False, b"\2" * 32, "job"))
        said, _ = provider.receive()
        assert isinstance(said, frames.Error)
        assert "02020202" in said.message


def test_a_socket_path_too_long_for_the_system_goes_elsewhere(
    start: StartNode, payloads: tuple[Path, list[bytes]]
) -> None:
    node = start(name="long" * 30)
    assert len(node.ready["socket"]) <= 100
    directory, made = payloads
    dataset = node_calls.ensure(node.ready["control"], directory / "train-*", SMALL)
    assert Counter(read_all(reader(node, dataset))) == Counter(made)
    private = Path(node.ready["socket"]).parent
    assert private.stat().st_mode & 0o777 == 0o700
    node.stop()
    assert not private.exists()


def test_the_node_has_no_tensorflow_in_it_and_stops_soon_with_readers_attached(
    node: Server, payloads: tuple[Path, list[bytes]]
) -> None:
    directory, _ = payloads
    dataset = node_calls.ensure(node.ready["control"], directory / "train-*", SMALL)
    client = reader(node, dataset)
    assert client.next_shard()
    assert "tensorflow" not in Path(f"/proc/{node.process.pid}/maps").read_text()
    assert node.stop(deadline_s=5.0) == 0
    with pytest.raises(ReaderGoneError):
        while client.next_shard():
            pass
    client.connection.close()


def test_status_is_printed_as_tables_and_as_json(
    node: Server, payloads: tuple[Path, list[bytes]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tfquiver.cli import calls
    from tfquiver.cli.status_asked_watched_explained import status
    from tfquiver.cli.status_tables_and_warnings import status_view

    directory, _ = payloads
    dataset = node_calls.ensure(node.ready["control"], directory / "train-*", SMALL)
    read_all(reader(node, dataset))
    told = status.collect(str(tmp_path / "cache"))
    assert told["hit_ratio"] == 1.0
    assert told["datasets"][0]["digest_id"] == dataset.digest_id.hex()
    assert told["sessions"][0]["acked"] == dataset.shards
    assert told["nodes"][0]["node_id"] == node.ready["node_id"]
    assert told["nodes"][0]["entries"] == dataset.shards
    status_view.show(told, calls.console(width=80))
    printed = capsys.readouterr().out
    assert status_view.short(node.ready["node_id"]) in printed
    assert "…" not in printed
    with pytest.raises(errors.InvalidArgumentError, match="neither"):
        status.collect("nothing")
