"""The coordinator's digests on a real disk that is full: held in memory, saved when there is room."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract.test_digest_cache import digest
from tests.support.aio import on_loop
from tests.support.coordinator_here import DIGEST, started
from tests.support.disks import tmpfs
from tests.support.privileges import needs_mounts
from tfquiver import errors
from tfquiver.digests.digest import Digest
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.registering_sharing_removing_datasets.digest_files import DigestFiles
from tfquiver.service.coordinator.registering_sharing_removing_datasets.registry import Registry


@needs_mounts
@on_loop
async def test_what_the_disk_does_not_take_is_held_and_saved_later(tmp_path: Path) -> None:
    made, deleted = digest(1), digest(2)
    with tmpfs(tmp_path / "small", 1 << 20) as small:
        files = DigestFiles(small / "digests", save_again_s=0.05)
        try:
            (small / "others").write_bytes(bytes(1000 << 10))
            await files.keep(made)
            await files.keep(deleted)
            assert await files.get(made.digest_id) is made
            assert b"".join([part async for part in files.parts(made.digest_id)]) == made.to_bytes()
            await files.delete(deleted.digest_id)
            (small / "others").unlink()
            async with asyncio.timeout(10):
                while not files.path(made.digest_id).exists():
                    await asyncio.sleep(0.01)
            assert b"".join([part async for part in files.parts(made.digest_id)]) == made.to_bytes()
            with pytest.raises(errors.NotFoundError):
                await files.get(deleted.digest_id)
        finally:
            await files.close()
        again = DigestFiles(small / "digests")
        assert (await again.get(made.digest_id)).to_bytes() == made.to_bytes()
        await again.delete(made.digest_id)
        assert list((small / "digests").iterdir()) == []


@on_loop
async def test_a_file_of_another_digest_or_a_damaged_one_is_named(tmp_path: Path) -> None:
    files = DigestFiles(tmp_path / "digests")
    one, other = digest(1), digest(2)
    await files.keep(one)
    files.path(other.digest_id).write_bytes(files.path(one.digest_id).read_bytes())
    with pytest.raises(errors.CorruptDigestError, match=f"{other.digest_id.hex()}.tfqd: it holds digest"):
        await files.get(other.digest_id)
    await files.delete(other.digest_id)
    await files.delete(other.digest_id)
    await files.close()


@on_loop
async def test_who_asks_for_the_same_digest_waits_for_one_reading_of_it(tmp_path: Path) -> None:
    one = digest(1)
    await DigestFiles(tmp_path / "digests").keep(one)
    files = DigestFiles(tmp_path / "digests")
    first, *others = await asyncio.gather(*(files.get(one.digest_id) for _ in range(10)))
    assert all(other is first for other in others)
    files.path(one.digest_id).unlink()
    missing = DigestFiles(tmp_path / "digests")
    told = await asyncio.gather(*(missing.get(one.digest_id) for _ in range(10)), return_exceptions=True)
    assert [type(error) for error in told] == 10 * [errors.NotFoundError]
    await files.keep(one)
    assert await missing.get(one.digest_id) is not first, "a failure is not remembered"


@on_loop
async def test_a_removal_looks_at_no_digest_that_went_before(tmp_path: Path) -> None:
    one, other = digest(1), digest(2)
    registry = Registry(tmp_path, lambda record: None, 1 << 30)
    for each in (one, other):
        await registry.register("", b"", None, _in_one_part(each.to_bytes()))
    registry.apply_removal(one.digest_id)
    await registry.prune()
    path = tmp_path / "digests" / f"{one.digest_id.hex()}.tfqd"
    assert not path.exists()
    path.write_bytes(b"somebody's")
    registry.apply_removal(other.digest_id)
    await registry.prune()
    assert [left.name for left in (tmp_path / "digests").iterdir()] == [path.name]


async def _in_one_part(data: bytes) -> AsyncIterator[bytes]:
    yield data


@on_loop
async def test_what_was_kept_and_never_registered_goes_at_the_next_start(tmp_path: Path) -> None:
    """A coordinator that was killed between the two left it behind for good, hundreds of megabytes maybe."""
    async with started(tmp_path):
        pass
    digests, left = tmp_path / "work" / "digests", digest(1)
    left.save(digests / f"{left.digest_id.hex()}.tfqd")
    (digests / "notes.tfqd").write_text("somebody's")
    async with started(tmp_path):
        assert {one.stem for one in digests.iterdir()} == {DIGEST.digest_id.hex(), "notes"}
    (tmp_path / "work" / "commit.log").unlink()
    again = Coordinator(tmp_path / "work", CoordinatorOptions())
    await again.start()
    await again.stop()
    assert (digests / f"{DIGEST.digest_id.hex()}.tfqd").exists(), "the log may be put back"


@pytest.mark.parametrize("is_registered", [False, True])
@on_loop
async def test_who_goes_away_while_its_digest_is_written_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_registered: bool
) -> None:
    """The thread that writes it goes on: the digest of no data set stayed until the coordinator was started again."""
    save, writes, go_on = Digest.save, threading.Event(), threading.Event()

    def slow(self: Digest, path: Path) -> None:
        writes.set()
        assert go_on.wait(30)
        save(self, path)

    async def parts() -> AsyncIterator[bytes]:
        yield made.to_bytes()

    made, registry = digest(1), Registry(tmp_path, lambda record: None, 1 << 20)
    if is_registered:
        await registry.register("", b"", None, parts())
    monkeypatch.setattr(Digest, "save", slow)
    registering = asyncio.create_task(registry.register("", b"", None, parts()))
    await asyncio.to_thread(writes.wait, 30)
    registering.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await registering
    there = [path.stem for path in (tmp_path / "digests").iterdir()]
    assert there == ([made.digest_id.hex()] if is_registered else [])
    await registry.close()
