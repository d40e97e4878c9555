"""What one reader's `state_dict` holds: plain values, kilobytes, no record content. Pure."""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tfquiver import errors
from tfquiver.reader.share import Share
from tfquiver.sizes_durations_amounts.amounts import many

_SHARED, _SETTLED = 1, 2  # versions: of readers that share a session, or read alone; of those with a settled share
_MOST_EPOCHS = (1 << 63) - 1  # the next one's number is a whole number of 64 bits, too
_MOST_BITMAP_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Position:
    """Of one of `readers` in an epoch.

    Attributes:
      reader, readers: which of how many: rank * workers + worker.
      digest: of the data set, hexadecimal.
      before: zlib-compressed bitmap of the shards that were this reader's before the iterator's current part, be they
        done or begun; empty: none.
      here: of the current part (`Epoch.state`); empty: nothing has been read.
      left: the current part is what an earlier iterator had begun.
      ended: nothing is left for this reader.
      part, parts: its share was settled beforehand (tfquiver.reader.share); 0 parts: it was not.
    """

    reader: int
    readers: int
    digest: str
    epoch: int
    before: bytes = b""
    here: bytes = b""
    left: bool = False
    ended: bool = False
    part: int = 0
    parts: int = 0

    @property
    def share(self) -> Share | None:
        return Share(self.part, self.parts) if self.parts else None

    def state_dict(self) -> dict[str, Any]:
        if self.parts:
            return {"version": _SETTLED, **asdict(self)}
        held = asdict(self)
        del held["part"], held["parts"]
        return {"version": _SHARED, **held}


def read(state: object) -> Position:
    """Raises InvalidArgumentError: it is none of ours, or of a later tfquiver."""
    if not isinstance(state, dict) or "version" not in state:
        raise errors.InvalidArgumentError("this is not the state_dict of a tfquiver.torch.QuiverDataset")
    if state["version"] not in (_SHARED, _SETTLED):
        raise errors.InvalidArgumentError(
            f"the state_dict has version {state['version']!r}; this reads {_SHARED} and {_SETTLED}"
        )
    kinds: dict[str, type] = {
        "reader": int,
        "readers": int,
        "digest": str,
        "epoch": int,
        "before": bytes,
        "here": bytes,
        "left": bool,
        "ended": bool,
    }
    if state["version"] == _SETTLED:
        kinds |= {"part": int, "parts": int}
    if state.keys() != {"version", *kinds} or not all(isinstance(state[name], kind) for name, kind in kinds.items()):
        raise errors.InvalidArgumentError(f"the state_dict is damaged: it has {sorted(map(str, state))}")
    return Position(**{name: state[name] for name in kinds})


def check(position: Position, reader: int, readers: int, digest: str, shards: int) -> None:
    """Raises InvalidArgumentError where it is somebody else's, or damaged. `shards`: of the data set."""
    if position.digest != digest:
        raise errors.InvalidArgumentError("the state_dict is of another data set: its files differ")
    if position.readers != readers:
        raise errors.InvalidArgumentError(
            f"the state_dict is of {many(position.readers, 'reader')} (ranks times workers), and here are "
            f"{readers}: go on "
            "with as many ranks and workers as there were"
        )
    if position.reader != reader:
        raise errors.InvalidArgumentError(
            f"the state_dict is of reader {position.reader}, and this is {reader}: each rank needs its own"
        )
    if not 0 <= position.epoch < _MOST_EPOCHS:
        raise errors.InvalidArgumentError(f"the state_dict is damaged: it is of epoch {position.epoch}")
    if position.parts < 0 or position.part not in range(max(1, position.parts)):
        raise errors.InvalidArgumentError(
            f"the state_dict is damaged: it is of share {position.part} of {position.parts}"
        )
    bits = np.frombuffer(bitmap(position.before), np.uint8)
    whole, rest = divmod(shards, 8)
    if bits[whole + 1 :].any() or (bits[whole : whole + 1].any() and bits[whole] >> rest):
        raise errors.InvalidArgumentError(
            f"the state_dict is damaged: it has shards beyond the {shards} of the data set"
        )


def joined(before: bytes, more: bytes) -> bytes:
    """The compressed bitmap of both; `more` is not compressed."""
    if not before:
        return zlib.compress(more, 1)
    bits = np.frombuffer(bitmap(before), np.uint8)
    added = np.frombuffer(more, np.uint8)
    length = max(len(bits), len(added))
    both = np.zeros(length, np.uint8)
    both[: len(bits)] |= bits
    both[: len(added)] |= added
    return zlib.compress(both.tobytes(), 1)


def shards_of(before: bytes) -> list[int]:
    """The shards in a compressed bitmap."""
    return [
        int(shard)
        for shard in np.flatnonzero(np.unpackbits(np.frombuffer(bitmap(before), np.uint8), bitorder="little"))
    ]


def has_all(known: bytes, own: bytes) -> bool:
    """Whether the shards of one compressed bitmap are among those of the other: of millions without a list of them."""
    found, wanted = (np.frombuffer(bitmap(of), np.uint8) for of in (known, own))
    both = min(len(found), len(wanted))
    return not (wanted[:both] & ~found[:both]).any() and not wanted[both:].any()


def bitmap(compressed: bytes) -> bytes:
    """Raises InvalidArgumentError."""
    if not compressed:
        return b""
    inflater = zlib.decompressobj()
    try:
        bits = inflater.decompress(compressed, _MOST_BITMAP_BYTES)
    except zlib.error as error:
        raise errors.InvalidArgumentError(f"the state_dict is damaged: {error}") from error
    if not inflater.eof:
        raise errors.InvalidArgumentError("the state_dict is damaged: its bitmap is too large")
    return bits
