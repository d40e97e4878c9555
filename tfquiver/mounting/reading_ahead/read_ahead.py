"""Whether reads follow one another, and how far ahead of them to fetch (pure).

A stream is a reader that goes forward. It is told apart by where it is, not by its descriptor: so one that reads file
after file, as they stand in the data set, stays one stream, and several readers of one file are several.

Room is what may be fetched ahead of all of them. **What has been said to be fetched and is not read yet, of streams
that read lately, is never more than the room**: a stream is given only what is free, so one that has too much gives it
back by reading on. A read here and there may take several calls of the kernel, and looks like a stream until it ends:
streams that have not read much have a part of the room together, and take nothing from those that have.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

LATELY_READS = 128  # who has not read for so long does not count among those who share the room
MOST_STREAMS = LATELY_READS  # so whoever is forgotten has not read lately
LONG_BYTES = 4 << 20  # who has read so much in order is not one who reads here and there
_SHORT_SHARE = 4  # of the room, where others want it
_SLACK_BYTES = 1 << 20  # the kernel asks for several parts of its own read-ahead at the same time
_GROWTH = 4
_STEP_BYTES = 1 << 20
_COUNT_EVERY_READS = 16
_NOTHING = range(0)


@dataclass(slots=True)
class _Stream:
    at: int  # behind the furthest read
    read_bytes: int
    told: int = 0  # up to where has been said to be fetched
    read_last: int = 0  # the number of that read
    goes_on: bool = False  # it has read more than once


_Streams = OrderedDict[int, _Stream]  # by where they are; the one that read last comes last


class ReadAhead:
    """Streams that are less than the slack apart count as one.

    Args:
      most_bytes: that any one stream is ahead.
      all_bytes: the room. Where it becomes less, nothing is said until what was said fits.
    """

    def __init__(self, most_bytes: int, all_bytes: Callable[[], int]) -> None:
        self._most_bytes, self._all_bytes = most_bytes, all_bytes
        self._reads = 0
        self.under_way_bytes = most_bytes // 2  # that are to be, of what is fetched ahead (see ahead_places.py)
        self._short, self._long = _Streams(), _Streams()
        self._share()

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
        for streams in (self._long, self._short):
            for place in (near, near - 1, near + 1):
                stream = streams.get(place)
                if stream is not None and -_SLACK_BYTES <= position - stream.at <= _SLACK_BYTES:
                    self._read_on(streams, place, stream, end, length_bytes)
                    return self._given(stream, _GROWTH * stream.read_bytes)
        stream = _Stream(end, length_bytes, read_last=self._reads)
        self._put(self._short, stream)
        if begun_bytes <= length_bytes:
            return _NOTHING
        return self._given(stream, min(_GROWTH * length_bytes, begun_bytes - length_bytes))

    def _read_on(self, streams: _Streams, place: int, stream: _Stream, end: int, length_bytes: int) -> None:
        if self._reads - stream.read_last > LATELY_READS:
            stream.told = 0  # the room was others' meanwhile, and what came is as a rule gone again
        if (read := end - stream.at) > 0:
            if stream.told > stream.at:
                freed = min(read, stream.told - stream.at)
                self._free_bytes += freed
                if streams is self._short:
                    self._free_short_bytes += freed
            stream.at = end
        stream.read_bytes += length_bytes
        stream.read_last, stream.goes_on = self._reads, True
        become = self._long if stream.read_bytes >= LONG_BYTES else self._short
        if become is streams and stream.at // _SLACK_BYTES == place:
            streams.move_to_end(place)
        else:
            del streams[place]
            self._put(become, stream)

    def _given(self, stream: _Stream, window_bytes: int) -> range:
        window, at = min(window_bytes, self._window_bytes), stream.at
        begin = max(stream.told, at)
        given = at + window - begin
        if given < _STEP_BYTES and begin - at > self._window_bytes // 2:
            return _NOTHING  # far enough for now: to say it of every read costs more than it brings
        if is_short := stream.read_bytes < LONG_BYTES:
            given = min(given, self._free_short_bytes)
        given = min(given, self._free_bytes)
        if given <= 0 or (given < _STEP_BYTES and begin - at > self._window_bytes // 2):
            return _NOTHING
        stream.told = begin + given
        self._free_bytes -= given
        if is_short:
            self._free_short_bytes -= given
        return range(begin, stream.told)

    def _put(self, streams: _Streams, stream: _Stream) -> None:
        place = stream.at // _SLACK_BYTES
        streams[place] = stream
        streams.move_to_end(place)
        if len(streams) > MOST_STREAMS:
            streams.popitem(last=False)

    def _share(self) -> None:
        """Between two of these what is free can only be more than is known: of who stops reading it is not."""
        room, most, since = self._all_bytes(), self._most_bytes, self._reads - LATELY_READS
        wants, ahead = list[int](), list[int]()
        for stream in reversed(self._long.values()):
            if stream.read_last < since:
                break
            wants.append(min(_GROWTH * stream.read_bytes, most))
            ahead.append(max(0, stream.told - stream.at))
        short_wants = short_ahead = 0
        for stream in reversed(self._short.values()):
            if stream.read_last < since:
                break
            if stream.told > stream.at:
                short_ahead += stream.told - stream.at
            if stream.goes_on:
                short_wants += _GROWTH * stream.read_bytes
        short_wants = min(short_wants, room // _SHORT_SHARE if wants else room)
        self._window_bytes = window = min(most, _level(wants, room - short_wants))
        self._free_bytes = room - sum(ahead) - short_ahead
        kept = sum(max(has, min(want, window)) for has, want in zip(ahead, wants, strict=True))
        self._free_short_bytes = room - kept - short_ahead
        self.under_way_bytes = max(most, sum(min(want, window) for want in wants) + short_wants) // 2


def _level(wants: list[int], room: int) -> int:
    """So much each may have for the room to be used up: who wants less leaves it to the others. Where all have what
    they want, so much may the one that has the most grow to, were all to grow as far."""
    level = room
    for number, want in enumerate(sorted(wants)):
        level = room // (len(wants) - number)
        if want > level:
            return level
        room -= want
    return max(wants, default=0) + room // max(1, len(wants)) if wants else level
