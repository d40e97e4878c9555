"""One gRPC call over a connection of its own, without gRPC (RFC 9113, RFC 7541, and gRPC's "PROTOCOL-HTTP2").

For threads that look for as long as a training runs: gRPC's own state does not go well with processes that fork. And
for a training's first question, which would wait for gRPC to be imported.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses

TOKEN_KEY = "x-tfquiver-token"  # of the metadata in which callers show theirs
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 7, 8
_END_STREAM, _END_HEADERS, _PADDED = 0x1, 0x4, 0x8
_STREAM = 1
_MOST_FRAME_BYTES = 1 << 14  # who does not ask for more is sent no more
_INITIAL_WINDOW_BYTES = (1 << 16) - 1
_MESSAGE_HEADER = struct.Struct(">BI")  # whether it is compressed; its length
_METHOD_POST, _SCHEME_HTTP = b"\x83", b"\x86"  # of HPACK's static table
_AUTHORITY, _PATH, _CONTENT_TYPE = b"\x01", b"\x04", b"\x0f\x10"  # a value follows, as it is
_MOST_VALUE_BYTES = 126  # a length of one byte
_UNIX, _LOCAL = "unix:", "localhost"  # what gRPC names as the host of such a socket


def unary_call(
    address: str, path: str, message: bytes, timeout_s: float, most_bytes: int, metadata: Sequence[tuple[str, str]] = ()
) -> bytes:
    """What the server at host:port or unix:/path answers, a message of at most `most_bytes`.

    `timeout_s` is for all of it but the look-up of a name.

    Raises:
      OSError: it cannot be reached, or the time is over.
      ProtocolError: it answers with an error, or with something else.
    """
    until_s = time.monotonic() + timeout_s
    with _connected(address, timeout_s) as sock:
        sock.settimeout(max(until_s - time.monotonic(), 0.001))
        host = _LOCAL if address.startswith(_UNIX) else address
        sock.sendall(_request(path, host, message, most_bytes, metadata))
        return _answer(sock, until_s, f"{path} at {address}", most_bytes)


def _connected(address: str, timeout_s: float) -> socket.socket:
    if not address.startswith(_UNIX):
        return socket.create_connection(addresses.split(address), timeout_s)
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.settimeout(timeout_s)
        sock.connect(address.removeprefix(_UNIX))
    except BaseException:
        sock.close()
        raise
    return sock


def _request(path: str, address: str, message: bytes, most_bytes: int, metadata: Sequence[tuple[str, str]]) -> bytes:
    window_bytes = most_bytes + _MESSAGE_HEADER.size
    headers = _METHOD_POST + _SCHEME_HTTP + _PATH + _value(path.encode())
    headers += _AUTHORITY + _value(address.encode()) + _CONTENT_TYPE + _value(b"application/grpc")
    for name, value in (("te", "trailers"), *metadata):
        headers += b"\0" + _value(name.encode()) + _value(value.encode())
    return b"".join((
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        _frame(_SETTINGS, 0, 0, struct.pack(">HI", 4, window_bytes)),
        _frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", max(window_bytes - _INITIAL_WINDOW_BYTES, 1))),
        _frame(_HEADERS, _END_HEADERS, _STREAM, headers),
        _frame(_DATA, _END_STREAM, _STREAM, _MESSAGE_HEADER.pack(0, len(message)) + message),
    ))  # fmt: skip


def _value(raw: bytes) -> bytes:
    """Raises ProtocolError."""
    if len(raw) > _MOST_VALUE_BYTES:
        raise errors.ProtocolError(f"{raw[:40]!r}...: {len(raw)} bytes are too many for a header of a call")
    return bytes((len(raw),)) + raw


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _answer(sock: socket.socket, until_s: float, what: str, most_bytes: int) -> bytes:
    body = b""
    while True:
        kind, flags, stream, payload = _next_frame(sock, until_s, what)
        if kind == _GOAWAY or (stream == _STREAM and kind == _RST_STREAM):
            raise errors.ProtocolError(f"{what}: the server ends the call")
        if stream != _STREAM:
            continue
        if kind == _DATA:
            if flags & _PADDED:
                raise errors.ProtocolError(f"{what}: the answer is padded")
            body += payload
        if len(body) >= _MESSAGE_HEADER.size:
            compressed, length = _MESSAGE_HEADER.unpack_from(body)
            if compressed:
                raise errors.ProtocolError(f"{what}: the answer is compressed")
            if length > most_bytes:
                raise errors.ProtocolError(f"{what}: an answer of {length} bytes, more than {most_bytes}")
            if len(body) - _MESSAGE_HEADER.size >= length:
                return body[_MESSAGE_HEADER.size : _MESSAGE_HEADER.size + length]
        if kind in (_DATA, _HEADERS) and flags & _END_STREAM:
            raise errors.ProtocolError(f"{what}: the answer is an error")


def _next_frame(sock: socket.socket, until_s: float, what: str) -> tuple[int, int, int, bytes]:
    header = _received(sock, 9, until_s)
    length = int.from_bytes(header[:3])
    if length > _MOST_FRAME_BYTES:
        raise errors.ProtocolError(f"{what}: what listens there is no server of this kind")
    kind, flags, stream = struct.unpack(">BBI", header[3:])
    return kind, flags, stream & 0x7FFFFFFF, _received(sock, length, until_s)


def _received(sock: socket.socket, size: int, until_s: float) -> bytes:
    """So many bytes. Raises OSError, TimeoutError among them."""
    received = b""
    while len(received) < size:
        if (left_s := until_s - time.monotonic()) <= 0:
            raise TimeoutError("no whole answer in time")
        sock.settimeout(left_s)
        if not (more := sock.recv(size - len(received))):
            raise ConnectionError("the connection was closed")
        received += more
    return received
