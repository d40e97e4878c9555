"""Where files of a data set stand in its tree: their URIs, relative to the directory that all are in (pure)."""

from __future__ import annotations

from collections.abc import Sequence

from tfquiver import errors
from tfquiver.plain_text import shortened

CONTROL = ".tfquiver"  # at the root: what the mount says of itself
_MOST_NAME_BYTES = 255


def split(uris: Sequence[str]) -> tuple[list[str], int]:
    """The files' paths, in the order of `uris`, and how many characters at the beginning of each are not shown.

    What all have in common, up to a slash, is not: "gs://b/train/" of gs://b/train/0.jpg and gs://b/train/cats/1.jpg.
    Files of different schemes stand under the scheme's name.
    """
    if not uris:
        return [], 0
    first, last = min(uris), max(uris)
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    hidden = first.rfind("/", 0, same) + 1
    if len(uris) == 1:
        hidden = first.rfind("/") + 1
    if hidden or "://" not in first:
        return list(uris), hidden
    return ["/".join((scheme, rest.lstrip("/"))) for scheme, _, rest in (uri.partition("://") for uri in uris)], 0


def check(path: str, uri: str) -> None:
    """Raises InvalidArgumentError: no file can have that name. `path` as shown, `uri` for the message."""
    for name in path.split("/"):
        if name in ("", ".", "..") or "\0" in name:
            raise errors.InvalidArgumentError(f"{shortened(uri)}: {name!r} cannot be the name of a file or directory")
        if len(name) > 63 and len(name.encode()) > _MOST_NAME_BYTES:
            raise errors.InvalidArgumentError(
                f"{shortened(uri)}: {shortened(name)} is longer than a file's name can be ({_MOST_NAME_BYTES} bytes)"
            )
    if path.partition("/")[0] == CONTROL:
        raise errors.InvalidArgumentError(f"{shortened(uri)}: {CONTROL} at the top is where the mount's own files are")
