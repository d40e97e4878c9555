"""States of `tfquiver.torch` that are damaged or made up: refused when they are loaded, by what is wrong with them."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

from tfquiver import errors

pytest.importorskip("torch", reason="PyTorch is not installed: pip install '.[torch]'")
positions = pytest.importorskip("tfquiver.torch.positions")

SHARDS = 21


def check(**change: object) -> None:
    position = replace(positions.Position(1, 2, "d", 3), **change)
    positions.check(positions.read(position.state_dict()), 1, 2, "d", SHARDS)


@pytest.mark.parametrize("epoch", [-1, (1 << 63) - 1, 10**40])
def test_an_epoch_that_there_cannot_be_is_refused(epoch: int) -> None:
    """It was cut to 64 bits, and another epoch was gone on with."""
    with pytest.raises(errors.InvalidArgumentError, match=f"is damaged: it is of epoch {epoch}"):
        check(epoch=epoch)
    check(epoch=0)
    check(epoch=(1 << 63) - 2)


@pytest.mark.parametrize("bits", [b"\0\0\x20", b"\0\0\0\1", b"\0" * 999 + b"\1", b"\xff" * (1 << 20)])
def test_shards_that_the_data_set_has_not_are_refused(bits: bytes) -> None:
    """They were said to the coordinator, and that it took them was waited for; of 32 MiB of them there was no end."""
    with pytest.raises(errors.InvalidArgumentError, match="shards beyond the 21"):
        check(before=zlib.compress(bits))


@pytest.mark.parametrize("bits", [b"", b"\xff\xff\x1f", b"\xff", b"\0" * 99])
def test_shards_that_it_has_are_not(bits: bytes) -> None:
    check(before=zlib.compress(bits))


def test_whole_bytes_of_shards() -> None:
    position = positions.Position(0, 1, "d", 0, zlib.compress(b"\xff\xff"))
    positions.check(position, 0, 1, "d", 16)
    with pytest.raises(errors.InvalidArgumentError, match="beyond the 15"):
        positions.check(position, 0, 1, "d", 15)


@pytest.mark.parametrize(
    ("known", "own", "has"),
    [(b"", b"", True), (b"", b"\0\0", True), (b"", b"\1", False), (b"\7", b"\5", True), (b"\5", b"\7", False),
     (b"\5\1", b"\4", True), (b"\4", b"\4\0", True), (b"\4", b"\4\1", False)],
)  # fmt: skip
def test_what_is_known_has_what_is_ones_own(known: bytes, own: bytes, has: bool) -> None:
    compressed = (zlib.compress(known) if known else b"", zlib.compress(own) if own else b"")
    assert positions.has_all(*compressed) is has
