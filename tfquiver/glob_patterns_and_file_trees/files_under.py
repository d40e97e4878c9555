"""Files that a pattern means, or a list names, and what the kernel says of each, by the reader library: without an
object for each.

A hundred thousand files take 0.15 s of a processor so, nearly all of it the kernel's, and 0.8 in Python. What is
unusual it leaves to Python, which knows all cases and says what is wrong.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tfquiver.ops.compiling_and_loading import reader_library

NUMBERS_BYTES = 24  # of each file: size (u64), when it was modified in ns (i64), inode (u64), of this machine's order
_NAMES, _NUMBERS, _LISTING = range(3)


class FilesUnder(NamedTuple):
    """Sorted by name, each once."""

    names: bytes  # behind the root, each with a zero behind it; of a list from `/` on
    numbers: bytes
    listing: bytes  # as for `ListedFiles`, where a prefix of the URIs was given

    def __len__(self) -> int:
        return len(self.numbers) // NUMBERS_BYTES


def files_under(
    root: str, pattern: str, but_suffix: str = "", every: bool = False, prefix: str | None = None
) -> FilesUnder | None:
    """The regular files there. None: somebody else has to look. Blocks on the disk, without the interpreter's lock.

    Args:
      pattern: of names with `/` between them; `*` stands for any characters, `?` for one. Names that begin with a dot
        are meant where the pattern does, too.
      but_suffix: files whose names end so are not meant; "": all are.
      every: names that begin with a dot are meant, too, and links are none of the files, nor followed.
      prefix: of the URIs of the listing.
    """
    library = _library()
    if library is None:
        return None
    try:
        texts = [text.encode() for text in (root, pattern, but_suffix)]
        begin = None if prefix is None else prefix.encode()
    except UnicodeEncodeError:
        return None
    found = ctypes.c_void_p()
    return _taken(library, found, library.tfq_files_under(*texts, every, begin, ctypes.byref(found)))


def files_named(names: Sequence[str], in_order: bool, prefix: str) -> FilesUnder | None:
    """The regular files of these names. None: somebody else has to look. Blocks on the disk, as `files_under`.

    Args:
      in_order: they are to be sorted, each once.
    """
    library = _library()
    if library is None or not hasattr(library, "tfq_files_named"):  # the same
        return None
    try:
        text = "\0".join([*names, ""]).encode()
        directory, begin = str(Path.cwd()).encode(), prefix.encode()
    except (OSError, UnicodeEncodeError):
        return None
    found = ctypes.c_void_p()
    failed = library.tfq_files_named(text, len(text), len(names), directory, in_order, begin, ctypes.byref(found))
    return _taken(library, found, failed)


def _taken(library: ctypes.CDLL, found: ctypes.c_void_p, failed: int) -> FilesUnder | None:
    if failed:
        return None
    try:
        return FilesUnder(*(_part(library, found, part) for part in (_NAMES, _NUMBERS, _LISTING)))
    finally:
        library.tfq_files_free(found)


def _part(library: ctypes.CDLL, found: ctypes.c_void_p, part: int) -> bytes:
    size_bytes = ctypes.c_int64()
    at = library.tfq_files_part(found, part, ctypes.byref(size_bytes))
    return ctypes.string_at(at, size_bytes.value) if size_bytes.value else b""


@functools.cache
def _library() -> ctypes.CDLL | None:
    library, pointer, text = reader_library.brought(), ctypes.c_void_p, ctypes.c_char_p
    if library is None or not hasattr(library, "tfq_files_under"):  # it was compiled of sources before these
        return None
    library.tfq_files_under.argtypes = text, text, text, ctypes.c_int, text, pointer
    if hasattr(library, "tfq_files_named"):
        number = ctypes.c_int64
        library.tfq_files_named.argtypes = text, number, number, text, ctypes.c_int, text, pointer
    library.tfq_files_part.argtypes, library.tfq_files_part.restype = (pointer, ctypes.c_int, pointer), pointer
    library.tfq_files_free.argtypes, library.tfq_files_free.restype = (pointer,), None
    return library
