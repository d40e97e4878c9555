"""Every entry that is on the disk when a node starts: looked for by the reader library, where there is one.

A hundred thousand entries in their fifty thousand directories take Python 1.1 s of a processor and the library half a
second, of which nearly all is the kernel's; meanwhile a trainer may wait.
"""

from __future__ import annotations

import numpy as np

from tfquiver.glob_patterns_and_file_trees.files_under import NUMBERS_BYTES, FilesUnder, files_under
from tfquiver.service.node.disk import entry
from tfquiver.service.node.disk.layout import Layout

# Of a name behind `objects`: ab/cd/<hash>, and a zero.
_FIRST, _SECOND, _HASH, _NAME_BYTES = slice(0, 2), slice(3, 5), slice(6, 70), 71
_HASH_BYTES = 32
_ENDS = {2: b"/", 5: b"/", 70: b"\0"}


def entries_there(layout: Layout) -> dict[bytes, int]:
    """Bytes on the disk by hash. `layout` is asked where anything is unusual. Raises OSError."""
    found = files_under(str(layout.objects), "*/*/*", every=True)
    entries = None if found is None else _entries(found)
    return dict(layout.entries()) if entries is None else entries


def _entries(found: FilesUnder) -> dict[bytes, int] | None:
    """None: some are no entries."""
    if len(found.names) != len(found) * _NAME_BYTES:
        return None
    names = np.frombuffer(found.names, np.uint8).reshape(-1, _NAME_BYTES)
    if any((names[:, at] != ord(end)).any() for at, end in _ENDS.items()):
        return None
    hashes = names[:, _HASH]
    if (names[:, _FIRST] != hashes[:, :2]).any() or (names[:, _SECOND] != hashes[:, 2:4]).any():
        return None
    text = hashes.tobytes().decode("ascii", "replace")
    try:
        data = bytes.fromhex(text)
    except ValueError:
        return None
    if data.hex() != text:  # capital letters
        return None
    numbers = np.frombuffer(found.numbers, "=u8").reshape(-1, NUMBERS_BYTES // 8)
    sizes = entry.disk_bytes(np.maximum(numbers[:, 0].astype(np.int64), 1)).tolist()
    return dict(zip((data[at : at + _HASH_BYTES] for at in range(0, len(data), _HASH_BYTES)), sizes, strict=True))
