"""The coordinator's digests on a real disk that is full: held in memory, saved when there is room."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.contract.test_digest_cache import digest
from tests.support.aio import on_loop
from tests.support.disks import tmpfs
from tests.support.privileges import needs_mounts
from tfquiver import errors
from tfquiver.service.coordinator.digest_files import DigestFiles


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
