"""The 8 bytes before each frame's payload: magic, version, type, bytes of payload (pure; docs/protocol.md)."""

from __future__ import annotations

import struct

from tfquiver.errors import ProtocolError
from tfquiver.version import VERSION

MAGIC = 0x5154
_HEADER = struct.Struct("<HBBI")
HEADER_BYTES = _HEADER.size


def packed(version: int, number: int, payload_bytes: int) -> bytes:
    return _HEADER.pack(MAGIC, version, number, payload_bytes)


def unpacked(header: bytes | bytearray | memoryview, version: int, peer: str) -> tuple[int, int]:
    """(type, bytes of payload) of HEADER_BYTES bytes, and whatever follows them.

    Raises ProtocolError: they are of no frame, or of another `version`. `peer`: what should be at the other end.
    """
    magic, its_version, number, payload_bytes = _HEADER.unpack_from(header)
    if magic != MAGIC:
        raise ProtocolError(f"a frame begins with {magic:#06x}, not {MAGIC:#06x}: is the peer a tfquiver {peer}?")
    if its_version != version:
        raise ProtocolError(
            f"the {peer} at the other end speaks protocol version {its_version}, tfquiver {VERSION} here {version}: "
            "upgrade the older of the two, and start it again"
        )
    return number, payload_bytes
