"""What is packed for a bucket is put together in a file here first: what this disk does not take is none of the
bucket's."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfquiver import errors
from tfquiver.packing.targets import spooled

_WHERE = "gs://bucket/data-00000"
_FIRST = rf"^{_WHERE}: is put together in a file here before it is sent: "


@pytest.fixture
def little_room() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_without_room_is_named_as_such(little_room: None) -> None:
    pieces = (b"x" * 1000 for _ in range(1000))
    said = rf"{_FIRST}.*: make room there, or name .* in TMPDIR"
    with pytest.raises(errors.ResourceExhaustedError, match=said), spooled(pieces, _WHERE):
        pass


def test_so_is_one_without_a_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It was a traceback."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "away"))
    said = rf"{_FIRST}No such file or directory: .* in TMPDIR"
    with pytest.raises(errors.NotFoundError, match=said), spooled([b"x"], _WHERE):
        pass


def test_what_pieces_raise_and_the_bucket_says_stays_as_it_is() -> None:
    def broken() -> Iterator[bytes]:
        yield b"x"
        raise OSError("of the source")

    with pytest.raises(OSError, match="of the source"), spooled(broken(), _WHERE):
        pass
    with pytest.raises(OSError, match="of the bucket"), spooled([b"x", b"y"], _WHERE) as spool:
        assert spool.read() == b"xy"
        raise OSError("of the bucket")
