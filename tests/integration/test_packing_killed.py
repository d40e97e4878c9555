"""Packs that are killed, or begun by two at once: what is there is whole, and of one source."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.gcs_emulator import gcs_emulator
from tests.support.packs import PNG, images, packed
from tfquiver import errors
from tfquiver.packing import pack, sources, targets


def _pack_slowly(source: Path, out: Path | str, pause_s: float = 0.02) -> None:
    pack.pack(sources.parts([source], 1), targets.target(str(out)), "data", 1, lambda done, of: time.sleep(pause_s))


def test_a_killed_pack_goes_on_to_the_same_files(tmp_path: Path) -> None:
    source, out = images(tmp_path / "in", 12), tmp_path / "out"
    whole = packed(source, tmp_path / "whole", part_bytes=1)
    child = multiprocessing.get_context("fork").Process(target=_pack_slowly, args=(source, out))
    child.start()
    deadline = time.monotonic() + 60
    while len(list(out.glob("*.tfrecord"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    assert child.pid
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.tfrecord")}
    assert packed(source, out, part_bytes=1) == whole
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("*.tfrecord") if path.name in before} == before
    assert pack.pack(sources.parts([source], 1), targets.target(str(out)), "data", 1) == 0


def test_a_killed_pack_to_a_bucket_goes_on_to_the_same_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = images(tmp_path / "in", 12), "gs://bucket/some/where"
    packed(source, tmp_path / "whole", part_bytes=1)
    whole = {f"some/where/{path.name}": path.read_bytes() for path in (tmp_path / "whole").glob("*.tfrecord")}
    with gcs_emulator() as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.address)

        def there() -> dict[str, tuple[str, bytes]]:
            objects = dict(store.storage.objects.get("bucket", {}))
            return {
                name: (objects[name]["generation"], store.storage.get_file("bucket", name))
                for name in objects
                if name.endswith(".tfrecord")
            }

        child = multiprocessing.get_context("spawn").Process(target=_pack_slowly, args=(source, out, 0.2))
        child.start()
        deadline = time.monotonic() + 60
        while len(there()) < 3 and time.monotonic() < deadline:
            time.sleep(0.005)
        child.kill()
        child.join()
        before = there()
        assert 3 <= len(before) < len(whole), "killed in between"
        assert {name: content for name, (_, content) in before.items()}.items() <= whole.items(), "none by half"
        assert pack.pack(sources.parts([source], 1), targets.target(out), "data", 1) > 0
        after = there()
        assert {name: content for name, (_, content) in after.items()} == whole
        assert before.items() <= after.items(), "what was there has not been written again"


def test_a_pack_that_is_killed_within_a_large_object_leaves_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is sent in two chunks; it is killed when the first one of the second object has come."""
    source, out = tmp_path / "in" / "cat", "gs://bucket/large"
    source.mkdir(parents=True)
    for number in range(3):
        (source / f"{number}.png").write_bytes(PNG + bytes([number]) * (targets._CHUNK_BYTES + (1 << 20)))
    packed(source.parent, tmp_path / "whole", part_bytes=1)
    whole = {f"large/{path.name}": path.read_bytes() for path in (tmp_path / "whole").glob("*.tfrecord")}
    with gcs_emulator() as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.address)
        spans, half, killed = list[str](), threading.Event(), threading.Event()

        def on_chunk(span: str) -> None:
            spans.append(span)
            if len(spans) == 3:
                half.set()
                assert killed.wait(60)

        def there() -> dict[str, tuple[str, bytes]]:
            objects = dict(store.storage.objects.get("bucket", {}))
            return {
                name: (its["generation"], store.storage.get_file("bucket", name))
                for name, its in objects.items()
                if name.endswith(".tfrecord")
            }

        store.on_chunk = on_chunk
        child = multiprocessing.get_context("spawn").Process(target=_pack_slowly, args=(source.parent, out))
        child.start()
        came = half.wait(90)
        child.kill()
        child.join()
        killed.set()
        assert came
        before = there()
        starts = [int(span.removeprefix("bytes ").partition("-")[0]) for span in spans]
        assert starts == [0, targets._CHUNK_BYTES, 0], "and the second one had no second chunk"
        assert len(before) == 1
        parts = sources.parts([source.parent], 1)
        assert pack.pack(parts, targets.target(out), "data", 1) == 2
        after = there()
        assert {name: content for name, (_, content) in after.items()} == whole
        assert before.items() <= after.items(), "what was there has not been written again"


def test_an_object_that_another_packer_has_written_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be of another generation than it was listed with."""
    with gcs_emulator() as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.address)
        targets.target("gs://bucket/p").write("a.tfrecord", [b"same"])
        generations = {its["generation"] for its in store.storage.objects["bucket"].values()}
        targets.target("gs://bucket/p").write("a.tfrecord", [b"same"])
        assert {its["generation"] for its in store.storage.objects["bucket"].values()} == generations


def test_another_source_is_not_mixed_in(tmp_path: Path) -> None:
    packed(images(tmp_path / "in"), tmp_path / "out")
    (tmp_path / "in" / "cat" / "1.png").write_bytes(b"other")
    with pytest.raises(errors.InvalidArgumentError, match="another --name"):
        packed(tmp_path / "in", tmp_path / "out")


@pytest.mark.parametrize("taken_out", [False, True])
def test_a_pack_that_was_refused_goes_on_when_the_cause_is_mended(tmp_path: Path, taken_out: bool) -> None:
    """Only what is of other images now is made again."""
    source, out = images(tmp_path / "in"), tmp_path / "out"
    whole = (source / "cat" / "7.png").read_bytes()
    (source / "cat" / "7.png").write_bytes(whole[:20] * 4)  # of another size, and no image
    (source / "cat" / "8.png").write_bytes(b"no image at all")
    part_bytes = 300
    with pytest.raises(errors.DataLossError, match=r"8\.png"):
        packed(source, out, part_bytes)
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.tfrecord")}
    assert before, "some were made before it was refused"
    (source / "cat" / "7.png").write_bytes(whole)
    if taken_out:
        (source / "cat" / "8.png").unlink()
        (source / "cat" / "9.png").write_bytes(whole)
    else:
        (source / "cat" / "8.png").write_bytes(whole)
    found = packed(source, out, part_bytes)
    assert found == packed(source, tmp_path / "at once", part_bytes)
    assert not taken_out or len(found) == 9
    kept = {path.name for path in out.glob("*.tfrecord") if before.get(path.name) == path.stat().st_mtime_ns}
    assert kept or taken_out, "what is of the same images stays"
    with pytest.raises(errors.InvalidArgumentError, match="another --name"):  # it is whole
        (source / "cat" / "8.png").write_bytes(whole * 2)
        packed(source, out, part_bytes)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("same_size", [False, True])
def test_a_source_that_changes_while_it_is_packed_is_no_part_of_it(
    tmp_path: Path, workers: int, same_size: bool
) -> None:
    """What is packed is what the note says: else the pack would be refused when it is started again, or have half of
    what was before and half of what is now."""
    source, out = images(tmp_path / "in", 12), tmp_path / "out"
    parts = sources.parts([source], 1)
    changed = parts[-1].files[0]
    size, written_ns = changed.stat().st_size, changed.stat().st_mtime_ns

    def change(done: int, of: int) -> None:
        if done == 0:  # the note is written, and nothing is read
            changed.write_bytes(PNG.ljust(size if same_size else size + 1, b"c"))
            os.utime(changed, ns=(written_ns, written_ns + 1_000_000_000))

    with pytest.raises(errors.UnavailableError, match=rf"{changed.name}: changed while it was packed"):
        pack.pack(parts, targets.target(str(out)), "data", workers, change)
    assert not (out / pack.file_name("data", 11, 12)).exists()
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.tfrecord")}
    assert packed(source, out, 1, workers) == packed(source, tmp_path / "at once", 1)
    assert {path.name: path.stat().st_mtime_ns for path in out.glob("*.tfrecord") if path.name in before} == before


def test_what_was_made_with_other_labels_is_made_again(tmp_path: Path) -> None:
    """A label is the number of its folder among all: one folder less, and it is another one."""
    source, out = images(tmp_path / "in", 3), tmp_path / "out"
    whole = (source / "cat" / "2.png").read_bytes()
    (source / "cat" / "2.png").write_bytes(b"no image")
    with pytest.raises(errors.DataLossError):
        packed(source, out, 1)
    assert len(list(out.glob("*.tfrecord"))) >= 2
    (source / "ant" / "0.png").rename(source / "cat" / "0.png")
    (source / "ant").rmdir()
    (source / "cat" / "2.png").write_bytes(whole)
    assert packed(source, out, 1) == packed(source, tmp_path / "at once", 1)


def test_of_an_unfinished_pack_nothing_is_mixed_with_another_source(tmp_path: Path) -> None:
    source, out = images(tmp_path / "in"), tmp_path / "out"
    (source / "cat" / "8.png").write_bytes(b"no image")
    with pytest.raises(errors.DataLossError):
        packed(source, out, 300)
    for other in (images(tmp_path / "other"), images(tmp_path / "in", 40)):  # the latter makes another number of files
        with pytest.raises(errors.InvalidArgumentError, match="another --name"):
            packed(other, out, 300)


def no_links(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """As FAT, SMB, and many of FUSE."""

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.EXDEV, errno.ENOSYS])
def test_a_file_system_without_hard_links_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    whole = packed(images(tmp_path / "in"), tmp_path / "with")
    no_links(monkeypatch, number)
    assert packed(tmp_path / "in", tmp_path / "out") == whole
    assert {path.name for path in (tmp_path / "out").iterdir()} == {path.name for path in (tmp_path / "with").iterdir()}
    with pytest.raises(errors.InvalidArgumentError, match="another --name"):
        packed(images(tmp_path / "other", 4), tmp_path / "out")


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK])
def test_a_file_system_without_links_and_locks_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    no_links(monkeypatch, errno.EPERM)
    monkeypatch.setattr(fcntl, "flock", refuse)
    folder = targets.target(str(tmp_path / "out"))
    assert folder.claim("data.pack.json", b"first") == b"first"
    assert folder.claim("data.pack.json", b"second") == b"first"


def test_one_that_was_killed_where_there_are_no_links_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_links(monkeypatch, errno.EPERM)
    out = tmp_path / "out"

    def held(*_: object) -> None:
        (tmp_path / "held").touch()
        time.sleep(60)

    def hold_and_never_name_it() -> None:
        monkeypatch.setattr(Path, "rename", held)
        targets._Folder(out)._named_unless_there(out / "half", out / "data.pack.json")

    out.mkdir()
    child = multiprocessing.get_context("fork").Process(target=hold_and_never_name_it)
    child.start()
    deadline = time.monotonic() + 60
    while not (tmp_path / "held").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    child.kill()
    child.join()
    assert (tmp_path / "held").exists() and not (out / "data.pack.json").exists()
    assert len(packed(images(tmp_path / "in"), out)) == 9
    assert sorted(path.name for path in out.iterdir()) == ["data-00000-of-00001.tfrecord", "data.pack.json"]


@pytest.mark.parametrize("has_links", [True, False])
def test_of_two_at_once_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool) -> None:
    """Each has looked, and found nothing, before the other wrote."""
    if not has_links:
        no_links(monkeypatch, errno.EPERM)
    where, said = targets.target(str(tmp_path / "out")), [str(number).encode() for number in range(8)]
    together = threading.Barrier(len(said))

    def claim(content: bytes) -> bytes:
        together.wait(30)
        return where.claim("data.pack.json", content)

    with ThreadPoolExecutor(len(said)) as pool:
        there = list(pool.map(claim, said))
    assert len(set(there)) == 1 and there[0] in said
    where.tidy("data")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["data.pack.json"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_source_of_which_nothing_could_be_packed_does_not_keep_the_right_one_out(
    tmp_path: Path, workers: int
) -> None:
    wrong, out = images(tmp_path / "wrong"), tmp_path / "out"
    for path in wrong.glob("*/*.png"):
        path.write_bytes(b"no image at all")
    with pytest.raises(errors.DataLossError, match="begins as no JPEG"):
        packed(wrong, out, 300, workers)
    assert not list(out.iterdir())
    right = images(tmp_path / "right")
    assert packed(right, out, 300, workers) == packed(right, tmp_path / "at once", 300)


def test_a_pack_of_the_same_name_that_was_faster_is_not_mixed_with(tmp_path: Path) -> None:
    """It has its first file while this one makes its own."""
    source, other, out = images(tmp_path / "in"), images(tmp_path / "other", 4), tmp_path / "out"

    def other_makes_all(done: int, of: int) -> None:
        if done == 0:
            packed(other, out)

    with pytest.raises(errors.InvalidArgumentError, match="another --name"):
        pack.pack(sources.parts([source], 300), targets.target(str(out)), "data", 1, other_makes_all)
    assert sorted(path.name for path in out.iterdir()) == ["data-00000-of-00001.tfrecord", "data.pack.json"]
    assert packed(other, out) == packed(other, tmp_path / "at once")


def test_a_source_of_which_nothing_could_be_packed_into_a_bucket_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = images(tmp_path / "wrong", 1)
    (wrong / "ant" / "0.png").write_bytes(b"no image at all")
    with gcs_emulator() as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.address)
        where = targets.target("gs://bucket/made")
        with pytest.raises(errors.DataLossError, match="begins as no JPEG"):
            pack.pack(sources.parts([wrong], 300), where, "data", 1)
        assert not where.names()
        right = sources.parts([images(tmp_path / "right")], 300)
        assert pack.pack(right, where, "data", 1) == len(right)
        assert pack.pack(right, where, "data", 1) == 0
        assert where.names() == {pack.file_name("data", number, len(right)) for number in range(len(right))} | {
            "data.pack.json"
        }
