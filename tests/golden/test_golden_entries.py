"""Entries that version 1 wrote are served by every later version."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from tests.golden.make_entries import HERE, RAW, entry_of
from tfquiver.service.node.disk import codec, entry
from tfquiver.service.node.disk.disk_cache import DiskCache


def test_raw_entries_are_still_written_this_way() -> None:
    assert entry_of(entry.RAW) == (HERE / "entry_v1_raw").read_bytes()


@pytest.mark.parametrize("name", ["entry_v1_raw", "entry_v1_zstd"])
def test_the_store_serves_them(tmp_path: Path, name: str) -> None:
    hash = hashlib.sha256(RAW).digest()
    folder = tmp_path / "objects" / hash.hex()[:2] / hash.hex()[2:4]
    folder.mkdir(parents=True)
    shutil.copy(HERE / name, folder / hash.hex())
    opened = DiskCache(tmp_path, 1 << 20).open_entry(hash)
    assert opened
    stored = opened.read_stored()
    raw = stored if opened.header.codec == entry.RAW else codec.decompress(stored, opened.header.raw_length, name)
    os.close(opened.fd)
    assert raw == RAW
