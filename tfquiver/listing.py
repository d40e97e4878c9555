"""From what the user names (globs, paths, URIs) to a canonical list of files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence

from tfquiver import errors, stores
from tfquiver.cutting import CutPolicy
from tfquiver.file_entry import FileEntry

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def expand(source: Source, store_for: Callable[[str], stores.ObjectStore] = stores.for_uri) -> list[FileEntry]:
    """The files that `source` names, sorted by URI, each once, with compression "auto".

    Raises:
      NotFoundError: a pattern matches nothing; names the pattern.
      InvalidArgumentError: no pattern at all, a directory, or a scheme without a store.
    """
    patterns = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not patterns:
        raise errors.InvalidArgumentError("no files named: give a path, a glob or a URI")
    found: dict[str, FileEntry] = {}
    for named in patterns:
        pattern = os.fspath(named)
        matches = store_for(pattern).list(pattern)
        if not matches:
            raise errors.NotFoundError(f"no match for {pattern}")
        for info in matches:
            found[info.uri] = FileEntry(_utf8(info.uri), info.size_bytes, info.generation)
    return [found[uri] for uri in sorted(found)]


def listing_key(files: Sequence[FileEntry], policy: CutPolicy) -> bytes:
    """32 bytes that name this listing, cut this way: names, sizes, generations and cutting parameters."""
    key = hashlib.sha256(b"tfquiver listing v1\0")
    key.update(f"{policy.min_bytes} {policy.target_bytes} {policy.max_bytes}\0".encode())
    for file in sorted(files, key=lambda file: file.uri):
        for field in (file.uri, str(file.size_bytes), file.generation):
            encoded = field.encode()
            key.update(len(encoded).to_bytes(8, "little") + encoded)
    return key.digest()


def _utf8(uri: str) -> str:
    try:
        uri.encode()
    except UnicodeEncodeError as error:
        raise errors.InvalidArgumentError(f"{uri!r}: the name is not UTF-8; rename the file") from error
    return uri
