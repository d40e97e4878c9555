"""From what the user names (globs, paths, URIs) to a canonical list of files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from tfquiver import errors, stores
from tfquiver.content.file_entry import FileEntry
from tfquiver.scanning.listing_terms import listing_key as listing_key

_MOST_SAID = 256
Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def expand(
    source: Source, store_for: Callable[[str], stores.ObjectStore] = stores.for_uri, in_order: bool = False
) -> list[FileEntry]:
    """The files that `source` names, sorted by URI, each once, with compression "auto".

    `in_order`: whoever reads them relies on their being named in that order.

    Raises:
      NotFoundError: a pattern matches nothing; names the pattern.
      InvalidArgumentError: no pattern at all, a directory, or a scheme without a store; with `in_order`, a file that is
        named twice or too late.
    """
    patterns = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not patterns:
        raise errors.InvalidArgumentError("no files named: give a path, a glob or a URI")
    found: dict[str, FileEntry] = {}
    for named in patterns:
        pattern = os.fspath(named)
        if "\0" in pattern:
            raise errors.InvalidArgumentError(f"{pattern!r}: no name has a zero byte")
        if pattern.startswith("~"):
            pattern = os.path.expanduser(pattern)  # noqa: PTH111 - pathlib would clean what may be a pattern
        try:
            matches = store_for(pattern).list(pattern)
        except OSError as error:
            raise errors.from_os_error(error, os.fspath(error.filename or pattern)[:_MOST_SAID]) from error
        if not matches:
            raise errors.NotFoundError(f"no match for {pattern}")
        for info in matches:
            if in_order and found and info.uri <= (last := next(reversed(found))):
                raise errors.InvalidArgumentError(
                    f'source: {info.uri} after {last}: order="files" reads each file once, sorted by name: give sorted '
                    "names, each once"
                )
            found[info.uri] = FileEntry(_utf8(info.uri), info.size_bytes, info.generation)
    return [found[uri] for uri in sorted(found)]


def _utf8(uri: str) -> str:
    try:
        uri.encode()
    except UnicodeEncodeError as error:
        raise errors.InvalidArgumentError(f"{uri!r}: the name is not UTF-8; rename the file") from error
    return uri
