"""What a reader who goes forward is given without a look at anything: read and checked with what it asked for before.

Most of what a read costs it costs once, however long it is: to plan it, to say what is to be fetched ahead of it, to
call the kernel. Where that asks for 128 KiB at a time (who has mounted is not root), four are read at once.
"""

from __future__ import annotations

from collections import OrderedDict

from tfquiver.mounting.checked_shard import BLOCK_BYTES

PART_BYTES = 512 << 10  # as the kernel is told to ask for where it may be told
MOST_PARTS = 8  # kept, one of a file: those of the files that were read last
_MOST_RUNS = 1024
_ROOM_BYTES = PART_BYTES + 2 * BLOCK_BYTES  # what is read and checked begins and ends with a block


class PartsAtOnce:
    """Of files by their number. No more is read than its reader has read in order before: who reads here and there,
    however much at a time, has at most as much again read for nothing."""

    def __init__(self) -> None:
        self._runs = OrderedDict[int, tuple[int, int]]()  # of files: where one ends, how long it is
        self._parts = OrderedDict[int, tuple[int, int, memoryview]]()  # of files: begin, end, bytes
        self._rooms: list[memoryview] = []  # that nothing is in

    def find(self, file: int, offset: int, length_bytes: int) -> memoryview | None:
        """None: it was not kept. Gone with the next call of `room`."""
        part = self._parts.get(file)
        if part is None or offset < part[0] or offset + length_bytes > part[1]:
            return None
        return part[2][offset - part[0] : offset - part[0] + length_bytes]

    def length(self, file: int, offset: int, length_bytes: int, most_bytes: int) -> int:
        """How much to read at once, at most so much, where `length_bytes` are asked for and not found."""
        end, run_bytes = self._runs.pop(file, (-1, 0))
        if end != offset:
            run_bytes = 0
        length_bytes = max(length_bytes, min(run_bytes, PART_BYTES, most_bytes))
        self._runs[file] = offset + length_bytes, run_bytes + length_bytes
        if len(self._runs) > _MOST_RUNS:
            self._runs.popitem(last=False)
        return length_bytes

    def room(self, file: int) -> memoryview:
        """Where to read a part of this file to, which `keep` then takes; what of it was kept is no more."""
        if (part := self._parts.pop(file, None)) is None and len(self._parts) >= MOST_PARTS:
            _, part = self._parts.popitem(last=False)
        if part is not None:
            self._rooms.append(memoryview(part[2].obj))
        if not self._rooms:
            self._rooms.append(memoryview(bytearray(_ROOM_BYTES)))
        return self._rooms[-1]

    def keep(self, file: int, offset: int, part: memoryview) -> None:
        """`part`: in the room that was given last."""
        self._rooms.pop()
        self._parts[file] = offset, offset + len(part), part
