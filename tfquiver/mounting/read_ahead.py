"""Whether reads follow one another, and how far ahead of them to fetch (pure).

A stream is a reader that goes forward. It is told apart by where it is, not by its descriptor: so one that reads file
after file, as they stand in the data set, stays one stream, and several readers of one file are several.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MOST_STREAMS = 64
_SLACK_BYTES = 1 << 20  # the kernel asks for several parts of its own read-ahead at the same time
_GROWTH = 4
_STEP_BYTES = 1 << 20
_LATELY_READS = 128  # who has not read for so long does not count among those who share the room
_COUNT_EVERY_READS = 16
_NOTHING = range(0)


@dataclass(slots=True)
class _Stream:
    at: int  # behind the furthest read
    read_bytes: int
    told: int = 0  # up to where has been said to be fetched
    read_last: int = 0  # the number of that read
    goes_on: bool = False  # it has read more than once


class ReadAhead:
    """Streams that are less than the slack apart count as one.

    Args:
      most_bytes: that any one stream is ahead.
      all_bytes: that all of them are together.
    """

    def __init__(self, most_bytes: int, all_bytes: Callable[[], int]) -> None:
        self._most_bytes, self._all_bytes = most_bytes, all_bytes
        self._window_bytes = most_bytes
        self._reads = 0
        self.under_way_bytes = most_bytes // 2  # that are to be, of what is fetched ahead (see ahead_places.py)
        self._streams: OrderedDict[int, _Stream] = OrderedDict()  # by where they are; the one that read last comes last

    def read(self, position: int, length_bytes: int, begun_bytes: int = 0) -> range:
        """A read of bytes at a position. The positions to fetch beyond it that have not been said before: none when
        it follows no other, unless it begins a file, which is as a rule read on.

        Args:
          begun_bytes: the length of the file that it begins.
        """
        self._reads += 1
        if not self._reads % _COUNT_EVERY_READS:
            self._share()
        end, near = position + length_bytes, position // _SLACK_BYTES
        for place in (near, near - 1, near + 1):
            stream = self._streams.get(place)
            if stream is not None and -_SLACK_BYTES <= position - stream.at <= _SLACK_BYTES:
                stream.at = max(stream.at, end)
                stream.read_bytes += length_bytes
                stream.read_last, stream.goes_on = self._reads, True
                if stream.at // _SLACK_BYTES == place:
                    self._streams.move_to_end(place)
                else:
                    del self._streams[place]
                    self._put(stream)
                ahead = stream.at + min(_GROWTH * stream.read_bytes, self._window_bytes)
                if ahead - stream.told < _STEP_BYTES and stream.told - stream.at > self._window_bytes // 2:
                    return _NOTHING  # far enough for now: to say it of every read costs more than it brings
                fetch = range(max(stream.told, stream.at), ahead)
                stream.told = max(stream.told, ahead)
                return fetch
        ahead = min(end + min(_GROWTH * length_bytes, self._window_bytes), position + begun_bytes)
        self._put(_Stream(end, length_bytes, ahead, self._reads))
        return range(end, ahead)

    def _put(self, stream: _Stream) -> None:
        place = stream.at // _SLACK_BYTES
        self._streams[place] = stream
        self._streams.move_to_end(place)
        if len(self._streams) > MOST_STREAMS:
            self._streams.popitem(last=False)

    def _share(self) -> None:
        """Of those who read now, and read on: who reads here and there is ahead of nothing."""
        sizes = list[int]()
        for stream in reversed(self._streams.values()):
            if self._reads - stream.read_last > _LATELY_READS:
                break
            if stream.goes_on:
                sizes.append(_GROWTH * stream.read_bytes)
        self._window_bytes = window = min(self._most_bytes, self._all_bytes() // max(1, len(sizes)))
        self.under_way_bytes = max(self._most_bytes, sum(min(size, window) for size in sizes)) // 2
