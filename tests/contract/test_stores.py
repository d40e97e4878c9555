"""What every object store keeps to, whichever it is."""

from __future__ import annotations

import concurrent.futures
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.gcs_emulator import gcs_emulator
from tests.support.hanging_disk import hanging_disk
from tests.support.privileges import needs_fuse
from tfquiver import errors, stores
from tfquiver.stores import ObjectStore
from tfquiver.stores.hanging_file_systems.patience import Patience, one_thread
from tfquiver.stores.local import LocalStore
from tfquiver.stores.object_store import Parts

DEADLINE_S = 20.0
CONTENT = bytes(range(256)) * 40


@dataclass
class Place:
    """A store and a way to change what is in it. `base` is where the test's objects are."""

    store: ObjectStore
    base: str
    put: Callable[[str, bytes], None]
    delete: Callable[[str], None]


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Place]:
    def put(name: str, data: bytes) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    yield Place(LocalStore(), f"file://{tmp_path}", put, lambda name: (tmp_path / name).unlink())


@pytest.fixture
def gcs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with gcs_emulator() as emulator:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", emulator.address)
        from tfquiver.stores.gcs import GcsStore

        store = GcsStore()
        bucket = store._client.bucket("bucket")
        yield Place(
            store,
            "gs://bucket",
            lambda name, data: bucket.blob(name).upload_from_string(data),
            lambda name: bucket.blob(name).delete(),
        )
        store.close()


@pytest.fixture(scope="module", autouse=True)
def moto_server() -> Iterator[str]:
    import fsspec.asyn
    from moto.server import ThreadedMotoServer

    fsspec.asyn.get_loop()  # fsspec's one loop, with its thread and wake-up sockets, is there for good
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(moto_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    import boto3

    from tfquiver.stores.fsspec import FsspecStore

    for key, value in {
        "AWS_ENDPOINT_URL": moto_server,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(key, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="bucket")
    store = FsspecStore.open("s3")
    assert store is not None
    yield Place(
        store,
        "s3://bucket",
        lambda name, data: client.put_object(Bucket="bucket", Key=name, Body=data),
        lambda name: client.delete_object(Bucket="bucket", Key=name),
    )
    store.close()
    for item in client.list_objects_v2(Bucket="bucket").get("Contents", []):
        client.delete_object(Bucket="bucket", Key=item["Key"])
    client.close()


@pytest.fixture(params=["local", "gcs", "s3"])
def place(request: pytest.FixtureRequest) -> Place:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Place)
    return found


@pytest.mark.slow
def test_lists_what_matches_sorted_with_sizes(place: Place) -> None:
    for name, size in [("d/train-2", 2), ("d/train-1", 1), ("d/other", 3), ("d/sub/train-3", 4)]:
        place.put(name, b"x" * size)
    found = place.store.list(f"{place.base}/d/train-*")
    assert [(info.uri, info.size_bytes) for info in found] == [
        (f"{place.base}/d/train-1", 1),
        (f"{place.base}/d/train-2", 2),
    ]
    assert [info.uri for info in place.store.list(f"{place.base}/d/**/train-*")] == [
        f"{place.base}/d/sub/train-3",
        f"{place.base}/d/train-1",
        f"{place.base}/d/train-2",
    ]
    assert place.store.list(f"{place.base}/d/other") == [place.store.stat(f"{place.base}/d/other")]
    assert place.store.list(f"{place.base}/d/nope") == []
    assert place.store.list(f"{place.base}/nope/*") == []


@pytest.mark.slow
def test_reads_exactly_the_range(place: Place) -> None:
    place.put("f", CONTENT)
    info = place.store.stat(f"{place.base}/f")
    assert info.generation
    for offset, length in [(0, 1), (0, len(CONTENT)), (1000, 77), (len(CONTENT) - 1, 1), (5, 0)]:
        data = place.store.read(info.uri, offset, length, info.generation, DEADLINE_S)
        assert data == CONTENT[offset : offset + length]
        assert place.store.read(info.uri, offset, length, "", DEADLINE_S) == data


@pytest.mark.slow
def test_a_range_comes_in_parts(place: Place) -> None:
    place.put("f", CONTENT)
    info = place.store.stat(f"{place.base}/f")
    lengths, parts = [1, 5000, 3, 1000], list[bytes]()
    place.store.read_parts(Parts(info.uri, 100, lengths, info.generation), DEADLINE_S, parts.append)
    assert list(map(len, parts)) == lengths
    assert b"".join(parts) == CONTENT[100 : 100 + sum(lengths)]


@pytest.mark.slow
def test_whoever_takes_parts_may_end_it(place: Place) -> None:
    place.put("f", CONTENT)
    taken = []

    def take(part: bytes) -> None:
        taken.append(part)
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        place.store.read_parts(Parts(f"{place.base}/f", 0, [10, 10], ""), DEADLINE_S, take)
    assert taken == [CONTENT[:10]]


@pytest.mark.slow
def test_an_object_that_is_not_there(place: Place) -> None:
    uri = f"{place.base}/nope"
    with pytest.raises(errors.NotFoundError, match="/nope"):
        place.store.stat(uri)
    with pytest.raises(errors.NotFoundError, match="/nope"):
        place.store.read(uri, 0, 1, "", DEADLINE_S)


@pytest.mark.slow
@pytest.mark.parametrize("in_parts", [False, True])
def test_a_deleted_object_is_a_stale_digest(place: Place, in_parts: bool) -> None:
    place.put("f", CONTENT)
    info = place.store.stat(f"{place.base}/f")
    place.delete("f")
    with pytest.raises(errors.StaleDigestError, match=f"{info.uri}: .* gone"):
        if in_parts:
            place.store.read_parts(Parts(info.uri, 0, [10, 10], info.generation), DEADLINE_S, lambda part: None)
        else:
            place.store.read(info.uri, 0, 10, info.generation, DEADLINE_S)


@pytest.mark.slow
def test_a_replaced_object_is_a_stale_digest_and_never_other_bytes(place: Place) -> None:
    place.put("f", CONTENT)
    info = place.store.stat(f"{place.base}/f")
    place.put("f", CONTENT[::-1])
    assert place.store.stat(info.uri).generation != info.generation
    with pytest.raises(errors.StaleDigestError, match=info.uri):
        place.store.read(info.uri, 0, 10, info.generation, DEADLINE_S)


@pytest.mark.slow
def test_a_shorter_object_is_a_stale_digest(place: Place) -> None:
    if place.base.startswith("gs:"):
        pytest.skip("a generation's length cannot change in GCS; the emulator does not answer 416")
    place.put("f", CONTENT)
    with pytest.raises(errors.StaleDigestError, match=f"it ends at {len(CONTENT)}"):
        place.store.read(f"{place.base}/f", len(CONTENT) - 5, 10, "", DEADLINE_S)


@pytest.mark.slow
def test_many_threads_at_once(place: Place) -> None:
    place.put("f", CONTENT)
    info = place.store.stat(f"{place.base}/f")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        reads = [pool.submit(place.store.read, info.uri, at, 50, info.generation, DEADLINE_S) for at in range(40)]
        assert [read.result() for read in reads] == [CONTENT[at : at + 50] for at in range(40)]


@pytest.mark.slow
def test_names_with_odd_characters(place: Place) -> None:
    name = "d/with space #1 %41+ü.tfrecord"
    place.put(name, CONTENT)
    info = place.store.stat(f"{place.base}/{name}")
    assert info.uri == f"{place.base}/{name}"
    assert place.store.list(f"{place.base}/d/*") == [info]
    assert place.store.read(info.uri, 3, 4, info.generation, DEADLINE_S) == CONTENT[3:7]


def test_for_uri_keeps_one_store_a_scheme(tmp_path: Path) -> None:
    try:
        assert stores.for_uri("/a") is stores.for_uri("file:///b")
        assert isinstance(stores.for_uri(str(tmp_path)), LocalStore)
    finally:
        stores.close_all()


def test_local_directories_and_odd_files_are_refused(local: Place, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(errors.InvalidArgumentError, match=r"a directory; name its files, for example .*/d/\*"):
        local.store.list(str(tmp_path / "d"))
    with pytest.raises(errors.InvalidArgumentError, match="not a regular file"):
        local.store.stat(str(tmp_path / "fifo"))
    assert local.store.list(str(tmp_path / "*")) == []


def test_a_pipe_in_the_place_of_a_file_is_a_stale_digest_and_not_waited_for(local: Place, tmp_path: Path) -> None:
    local.put("f", CONTENT)
    info = local.store.stat(f"{local.base}/f")
    (tmp_path / "f").unlink()
    os.mkfifo(tmp_path / "f")
    with pytest.raises(errors.StaleDigestError, match="has changed since"):
        local.store.read(info.uri, 0, 10, info.generation, 1.0)


def test_a_local_name_with_brackets_means_itself(local: Place, tmp_path: Path) -> None:
    local.put("a[1].tfrecord", b"x")
    assert [info.uri for info in local.store.list(f"{tmp_path}/a[1].tfrecord")] == [f"file://{tmp_path}/a[1].tfrecord"]


def test_a_local_file_has_one_name_however_it_is_spelled(
    local: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.put("x/d/a.tfrecord", b"x")
    x = tmp_path / "x"
    (x / "e").mkdir()
    monkeypatch.chdir(x / "e")
    for spelled in (
        "../d/a.tfrecord", "../d/*", "../../*/d/a.tfrecord", f"file://{x}/e/.././d//a.tfrecord",
        f"{x}/*/../d/a.tfrecord", "../d/../../*/d/*.tfrecord", f"{'../' * 40}{x}/d/a.tfrecord",
        f"/{x}/d/a.tfrecord", f"file:///{x}/d/*",
    ):  # fmt: skip
        found = [info.uri for info in local.store.list(spelled)]
        assert found == [f"file://{x}/d/a.tfrecord"], spelled


def test_what_is_above_a_link_is_above_what_it_leads_to(local: Place, tmp_path: Path) -> None:
    local.put("far/d/a.tfrecord", b"right")
    local.put("d/a.tfrecord", b"of another directory")
    (tmp_path / "far" / "e").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far" / "e")
    spelled = f"{tmp_path}/link/../d/a.tfrecord"
    (found,) = local.store.list(spelled)
    assert found.uri == f"file://{tmp_path}/far/d/a.tfrecord" and found.size_bytes == Path(spelled).stat().st_size
    assert [info.uri for info in local.store.list(f"{tmp_path}/l*/../d/a.tfrecord")] == [found.uri]
    (through,) = local.store.list(f"{tmp_path}/link/../../link/../d/a.tfrecord")
    assert through.uri == found.uri
    (tmp_path / "far" / "e" / "b.tfrecord").write_bytes(b"x")
    assert [info.uri for info in local.store.list(f"{tmp_path}/link/b*")] == [f"file://{tmp_path}/link/b.tfrecord"]


def test_what_is_above_a_name_behind_a_pattern_is_what_the_disk_says(local: Place, tmp_path: Path) -> None:
    local.put("far/f.tfrecord", b"far")
    local.put("d/1/f.tfrecord", b"near")
    local.put("d/2/f.tfrecord", b"beside nothing")
    (tmp_path / "far" / "e").mkdir()
    (tmp_path / "d" / "1" / "e").symlink_to(tmp_path / "far" / "e")
    (found,) = local.store.list(f"{tmp_path}/d/*/e/../f.tfrecord")
    assert found.uri == f"file://{tmp_path}/far/f.tfrecord"


def test_a_local_link_to_nothing_is_named(local: Place, tmp_path: Path) -> None:
    local.put("a.tfrecord", b"x")
    (tmp_path / "b.tfrecord").symlink_to(tmp_path / "nowhere")
    with pytest.raises(errors.NotFoundError, match=r"b.tfrecord: a symbolic link to nothing"):
        local.store.list(f"{tmp_path}/*.tfrecord")


def test_all_beneath_a_local_directory_that_is_not_there_is_nothing(local: Place, tmp_path: Path) -> None:
    local.put("d/a.tfrecord", b"x")
    assert [info.uri for info in local.store.list(f"{tmp_path}/d/**")] == [f"file://{tmp_path}/d/a.tfrecord"]
    assert local.store.list(f"{tmp_path}/nowhere/**") == []


@needs_fuse
def test_a_file_server_that_is_dead_keeps_nobody_longer_than_the_deadline(local: Place, tmp_path: Path) -> None:
    with hanging_disk(tmp_path) as disk:
        (disk.path / "f").write_bytes(CONTENT)
        disk.hang()
        start = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            reads = [pool.submit(local.store.read, f"{disk.path}/f", 0, 1, "", 0.3) for _ in range(20)]
            for read in reads:
                with pytest.raises(errors.UnavailableError, match=r"/f: no answer in 0\.3 s; the call hangs"):
                    read.result()
        assert time.monotonic() - start < 5.0
        threads = [thread for thread in threading.enumerate() if thread.name == "store call"]
        assert len(threads) == 20
        local.put("g", CONTENT)
        assert local.store.read(f"{tmp_path}/g", 1, 2, "", 5.0) == CONTENT[1:3]
        disk.go_on()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()


def test_calls_of_one_thread_can_share_another_until_one_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """To start a thread takes ten times as long as to read a small file."""
    patience, gate, started, start = Patience(), threading.Event(), list[threading.Thread](), threading.Thread.start

    def counted(thread: threading.Thread) -> None:
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", counted)
    with one_thread():
        makers = {patience.call("x", 60.0, threading.current_thread) for _ in range(50)}
        with pytest.raises(ZeroDivisionError):
            patience.call("x", 60.0, lambda: 1 // 0)
        assert makers == {patience.call("x", 60.0, threading.current_thread)} == set(started)
        with pytest.raises(errors.UnavailableError, match=r"x: no answer in 0\.1 s"):
            patience.call("x", 0.1, gate.wait)
        after = patience.call("x", 60.0, threading.current_thread)
        assert after not in makers
        assert len(started) == 2
    gate.set()
    for thread in started:
        thread.join()


def test_more_calls_that_hang_than_there_may_be_are_refused_at_once() -> None:
    patience, gate = Patience(max_hung=2), threading.Event()
    for _ in range(2):
        with pytest.raises(errors.UnavailableError, match=r"no answer in 0\.1 s"):
            patience.call("x", 0.1, gate.wait)
    with pytest.raises(errors.UnavailableError, match="2 calls before it hang"):
        patience.call("x", 60.0, gate.wait)
    assert patience.call("y", 60.0, lambda: 7, "another file system") == 7
    gate.set()
    for thread in [thread for thread in threading.enumerate() if thread.name == "store call"]:
        thread.join()
    assert patience.call("x", 60.0, lambda: 7) == 7
