"""The user's files as this process sees them, and how it reaches the stores that they are in."""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

from tfquiver import stores
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing.listing import Source, expand
from tfquiver.stores.credentials.resolved import Access, resolve

_MAX_NAME = 64


def default_name(source: Source) -> str:
    """What a data set is called whom nobody has given a name: as its first file or pattern, without what varies."""
    first = os.fspath(source if isinstance(source, str | os.PathLike) else source[0])
    # Of `gs://bucket/photos/*.tfrecord` what varies is all of the file's name: then it is the folder's.
    for part in reversed(first.partition("://")[2].split("/") if "://" in first else first.split("/")):
        if stem := re.sub(r"[*?\[].*", "", part).rstrip("-_."):
            return stem[:_MAX_NAME]
    return first[:_MAX_NAME]


def listed(source: Source, in_order: bool = False, of_records: bool = True) -> tuple[Sequence[FileEntry], list[Access]]:
    """The files, and the ways to their stores that a node has to be told. `in_order`, `of_records`: as for `expand`.

    Raises:
      NotFoundError: a pattern matches nothing; names the pattern.
      InvalidArgumentError: no pattern at all, a directory, or a scheme without a store.
      UnauthenticatedError, PermissionError_: no credentials, or not the right ones; says what to set.
      UnavailableError: the store does not answer.
    """
    accesses: dict[str, Access] = {}
    opened: dict[str, stores.ObjectStore] = {}
    with ExitStack() as exits:
        # Of as many objects as there are files none is garbage; among all that TensorFlow has made, too, to look for
        # some takes as long as to list them. Stores elsewhere may take minutes: too long for everybody else's garbage.
        if not any("://" in os.fspath(pattern) for pattern in _patterns(source)):
            exits.enter_context(_no_search_for_garbage())

        def store_for(pattern: str) -> stores.ObjectStore:
            scheme = stores.scheme_of(pattern)
            if scheme not in opened:
                access = resolve(scheme)
                if access is None:
                    opened[scheme] = stores.for_uri(pattern)
                else:
                    accesses[scheme] = access
                    opened[scheme] = exits.enter_context(closing(stores.open_with(access)))
            return opened[scheme]

        files = expand(source, store_for, in_order, of_records)
    return files, list(accesses.values())


def _patterns(source: Source) -> Iterable[str | os.PathLike[str]]:
    return [source] if isinstance(source, str | os.PathLike) else source


@contextmanager
def _no_search_for_garbage() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def accesses_of(uris: Iterable[str]) -> list[Access]:
    """The ways to the stores of files that are known already. Raises UnauthenticatedError, UnavailableError."""
    found = (resolve(scheme) for scheme in sorted({stores.scheme_of(uri) for uri in uris}))
    return [access for access in found if access is not None]
