"""From what the user names (globs, paths, URIs) to a canonical list of files."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence

from tfquiver import errors, stores
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing.listed_files import ListedFiles
from tfquiver.listing.listing_terms import listing_key as listing_key
from tfquiver.listing.nothing_found import what_is_there
from tfquiver.stores.local import LocalStore

_MOST_SAID = 256
PACK_NOTE = ".pack.json"  # how the file ends in which `tfquiver pack` says of what it has made those beside it
Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def expand(
    source: Source,
    store_for: Callable[[str], stores.ObjectStore] = stores.for_uri,
    in_order: bool = False,
    of_records: bool = False,
) -> Sequence[FileEntry]:
    """The files that `source` names, sorted by URI, each once, with compression "auto".

    Args:
      in_order: whoever reads them relies on their being named in that order.
      of_records: what `tfquiver pack` writes beside its files is not meant, unless a pattern ends as it does.

    Raises:
      NotFoundError: a pattern matches nothing; names the pattern.
      InvalidArgumentError: no pattern at all, a directory, or a scheme without a store; with `in_order`, a file that is
        named twice or too late.
    """
    patterns = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not patterns:
        raise errors.InvalidArgumentError("no files named: give a path, a glob or a URI")
    paths = [os.fspath(named) for named in patterns]
    if len(paths) > 1 and (files := _names_at_once(paths, store_for, in_order)):
        return files
    found: dict[str, FileEntry] = {}
    names = list(map(_plain, paths))
    if len(names) == 1 and (files := _at_once(names[0], store_for, of_records)):
        return files
    listed = _listed(names, store_for)
    for pattern in names:
        try:
            matches = next(listed)
        except OSError as error:
            raise errors.from_os_error(error, os.fspath(error.filename or pattern)[:_MOST_SAID]) from error
        if of_records and not pattern.endswith(PACK_NOTE):
            matches = [info for info in matches if not info.uri.endswith(PACK_NOTE)]
        if not matches:
            named = pattern.removesuffix("***")  # which nobody has written: `beneath` says so of a directory
            raise errors.NotFoundError(f"no match for {named}{what_is_there(pattern)}")
        for info in matches:
            if in_order and found and info.uri <= (last := next(reversed(found))):
                raise errors.InvalidArgumentError(
                    f'source: {info.uri} after {last}: order="files" reads each file once, sorted by name: give sorted '
                    "names, each once"
                )
            found[info.uri] = FileEntry(_utf8(info.uri), info.size_bytes, info.generation)
    return [found[uri] for uri in sorted(found)]


def _plain(pattern: str) -> str:
    if "\0" in pattern:
        raise errors.InvalidArgumentError(f"{pattern!r}: no name has a zero byte")
    # pathlib would clean what may be a pattern
    return os.path.expanduser(pattern) if pattern.startswith("~") else pattern  # noqa: PTH111


def _at_once(pattern: str, store_for: Callable[[str], stores.ObjectStore], of_records: bool) -> ListedFiles | None:
    """Of a pattern of this machine. None: it has to be listed name by name."""
    store = store_for(pattern)
    if not isinstance(store, LocalStore):
        return None
    try:
        found = store.list_at_once(pattern, PACK_NOTE if of_records and not pattern.endswith(PACK_NOTE) else "")
    except OSError:  # which `list` has, too, and says
        return None
    return ListedFiles(found.listing, len(found)) if found else None


def _names_at_once(
    names: Sequence[str], store_for: Callable[[str], stores.ObjectStore], in_order: bool
) -> ListedFiles | None:
    """Of names of this machine's files. None: as before."""
    if not isinstance(names[0], str) or stores.scheme_of(names[0]) != "file":
        return None
    store = store_for(names[0])
    try:
        found = store.list_names_at_once(names, in_order) if isinstance(store, LocalStore) else None
    except (OSError, TypeError):  # which it is told of then, too
        return None
    return ListedFiles(found.listing, len(found)) if found else None


def _listed(
    patterns: Sequence[str], store_for: Callable[[str], stores.ObjectStore]
) -> Iterator[list[stores.ObjectInfo]]:
    """Of each pattern."""
    for store, some in itertools.groupby(patterns, store_for):
        if isinstance(store, LocalStore):
            yield from store.list_each(some)
        else:
            yield from map(store.list, some)


def _utf8(uri: str) -> str:
    try:
        uri.encode()
    except UnicodeEncodeError as error:
        raise errors.InvalidArgumentError(f"{uri!r}: the name is not UTF-8; rename the file") from error
    return uri
