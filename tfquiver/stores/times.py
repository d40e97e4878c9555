"""When a file was written, where its store's version says so (pure)."""

from __future__ import annotations

from tfquiver.digests.file_entry import FileEntry


def modified_ns(file: FileEntry) -> int:
    """Nanoseconds since 1970; 0: not known.

    A local file's generation begins with its mtime (stores/local.py); that of Google Cloud Storage is the time of
    writing in microseconds. Other stores' versions say nothing of time.
    """
    if file.uri.startswith("file://"):
        return _number(file.generation.partition("-")[0])
    if file.uri.startswith("gs://"):
        return 1000 * _number(file.generation)
    return 0


def _number(text: str) -> int:
    value = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 + 1 else 0
    return value if value < 1 << 63 else 0
