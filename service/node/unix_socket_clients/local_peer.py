"""Who is at the other end of a Unix socket, as the kernel says."""

from __future__ import annotations

import array
import socket
import struct

_SO_PEERGROUPS = 59  # <asm-generic/socket.h>
_MOST_OPTION_BYTES = 1024  # that Python asks for
_CREDENTIALS = struct.Struct("3i")


def peer_uid(sock: socket.socket) -> int:
    """The user id of the process at the other end."""
    _pid, uid, _gid = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(uid)


def peer_groups(sock: socket.socket) -> set[int]:
    """The groups of the process at the other end, when it connected; of one in more than 256 only the first."""
    _pid, _uid, gid = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    try:
        others = array.array("I", sock.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, _MOST_OPTION_BYTES))
    except OSError:
        return {gid}
    return {gid, *others}
