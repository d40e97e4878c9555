"""What an iterator's `get_state` gives: numbers and text, as JSON can hold them, no record content. Pure."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass

from tfquiver import errors
from tfquiver.reader.share import Share

_VERSION = 1


@dataclass(frozen=True, slots=True)
class State:
    """Of one of `readers` in an epoch.

    Attributes:
      reader, readers: whose share.
      digest: of the data set, hexadecimal.
      epoch: its number, from 0 on.
      here: base64 of `Epoch.state`; empty: nothing has been read of the epoch.
    """

    reader: int
    readers: int
    digest: str
    epoch: int
    here: str = ""

    def plain(self) -> dict[str, int | str]:
        return {"version": _VERSION, **asdict(self)}

    def position(self) -> bytes | None:
        return base64.b64decode(self.here) or None


def written(share: Share, digest: str, epoch: int, position: bytes) -> dict[str, int | str]:
    return State(share.reader, share.readers, digest, epoch, base64.b64encode(position).decode()).plain()


def read(state: object, share: Share, digest: str) -> State:
    """Raises InvalidArgumentError: it is none of ours, damaged, of a later tfquiver, or somebody else's."""
    if not isinstance(state, dict) or "version" not in state:
        raise errors.InvalidArgumentError("this is not the state of an iterator of tfquiver.grain.QuiverDataset")
    if state["version"] != _VERSION:
        raise errors.InvalidArgumentError(f"the state has version {state['version']!r}; this reads {_VERSION}")
    kinds = {"reader": int, "readers": int, "digest": str, "epoch": int, "here": str}
    if state.keys() != {"version", *kinds} or not all(isinstance(state[name], kind) for name, kind in kinds.items()):
        raise errors.InvalidArgumentError(f"the state is damaged: it has {sorted(map(str, state))}")
    found = State(**{name: state[name] for name in kinds})
    try:
        base64.b64decode(found.here, validate=True)
    except ValueError as error:  # of binascii.Error, too
        raise errors.InvalidArgumentError(f"the state is damaged: {error}") from error
    if not 0 <= found.epoch < 1 << 63:
        raise errors.InvalidArgumentError(f"the state is damaged: it is of epoch {found.epoch}")
    if found.digest != digest:
        raise errors.InvalidArgumentError("the state is of another data set: its files differ")
    if found.here and (found.reader, found.readers) != (share.reader, share.readers):
        raise errors.InvalidArgumentError(
            f"the state is of reader {found.reader} of {found.readers} (processes times workers), and this is "
            f"{share.reader} of {share.readers}: go on with as many as there were, each with its own state"
        )
    return found
