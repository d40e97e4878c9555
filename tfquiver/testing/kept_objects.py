"""Objects that a store in front of an emulator has seen, and ranges of them as HTTP replies. Pure."""

from __future__ import annotations

import re

_RANGE = re.compile(rb"^range: *bytes=(\d+)-(\d+)\r?$", re.IGNORECASE | re.MULTILINE)


class KeptObjects:
    """By the path of a read, which names object and generation."""

    def __init__(self) -> None:
        self._bodies: dict[str, bytes] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._bodies

    def keep(self, path: str, body: bytes) -> None:
        self._bodies[path] = body

    def reply(self, path: str, head: bytes) -> tuple[bytes, memoryview]:
        """Head and body for a request with this head. The path is kept."""
        body = memoryview(self._bodies[path])
        if not (found := _RANGE.search(head)):
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body
        first, last = int(found[1]), min(int(found[2]), len(body) - 1)
        if first > last:
            return b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n", body[:0]
        where = b"Content-Range: bytes %d-%d/%d" % (first, last, len(body))
        part = body[first : last + 1]
        return b"HTTP/1.1 206 Partial Content\r\n%b\r\nContent-Length: %d\r\n\r\n" % (where, len(part)), part
