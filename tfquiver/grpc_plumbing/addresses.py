"""Hosts and ports as text, and which of this machine's addresses others can use."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import re
import socket
import urllib.parse
from collections.abc import Sequence
from typing import Any

ALL = "[::]"  # as a host to listen on: every address of this machine, those of IPv4 too
_ALL_IPV4 = "0.0.0.0"
_PORTS_TRIED = 16
_MOST_OF_ONE = 8  # addresses
_NO_WAY = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.ENETUNREACH})


def is_host_port(text: str) -> bool:
    """host:port with a port that exists; an IPv6 address stands in brackets."""
    match = re.fullmatch(r"(?:[^\s:/%]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})", text)
    return match is not None and 0 < int(match[1]) < 1 << 16


def is_address(text: str) -> bool:
    """host:port, or several of them, `a:1,b:1`, of which one serves at a time (a coordinator and those that stand by);
    or unix:/path."""
    return text.startswith("unix:/") or (text.count(",") < _MOST_OF_ONE and all(map(is_host_port, text.split(","))))


def each(address: str) -> list[str]:
    """Where the server of an address may be: the parts of `a:1,b:1`."""
    return [address] if address.startswith("unix:") else address.split(",")


def of_socket(address: str) -> str:
    """`unix:/path` as gRPC is to be given it. It takes it for a URI: `%20` in a path would be a space, and so lead to
    another directory's socket. A comma parts it all the same. Raises UnicodeEncodeError: the path is not text."""
    return "unix:" + urllib.parse.quote(address.removeprefix("unix:"))


def split(address: str) -> tuple[str, int]:
    """(host, port) of `host:port` or `[v6]:port`. Raises ValueError."""
    host, _, port = address.rpartition(":")
    if not host:
        raise ValueError(f"{address!r} is not host:port")
    return bare(host), int(port)


def joined(host: str, port: int) -> str:
    host = bare(host)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bare(host: str) -> str:
    """An IPv6 address without its brackets."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def is_all(host: str) -> bool:
    """Whether listening there is listening on every address."""
    return bare(host) in (bare(ALL), _ALL_IPV4)


def is_loopback(host: str) -> bool:
    """Whether a host says of itself that it is this machine and no other; names are not looked up."""
    host = bare(host).rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def leads_elsewhere(address: str) -> bool:
    """Whether it is host:port that may be another machine's: each machine that connects to others reaches itself."""
    try:
        hosts = [split(one)[0] for one in each(address)]
    except ValueError:
        return False
    return not address.startswith("unix:") and not all(map(is_loopback, hosts))


def connected(address: str, timeout_s: float) -> socket.socket:
    """To host:port, at the first of the name's addresses that takes a connection; each is waited for so long.

    Raises OSError, ValueError. Where one of the addresses is silent, whatever the others say, TimeoutError: somebody
    may be there; else, where one refuses, ConnectionRefusedError.
    """
    try:
        return socket.create_connection(split(address), timeout_s, all_errors=True)
    except ExceptionGroup as several:
        for kind in (TimeoutError, ConnectionRefusedError, OSError):
            for error in several.exceptions:
                if isinstance(error, kind):
                    raise error from None
        raise


def refuses(address: str, timeout_s: float) -> bool:
    """Whether nobody listens at any of the name's addresses. Those that this machine has no way to, as to IPv6 where it
    has none, count for nothing."""
    try:
        socket.create_connection(split(address), timeout_s, all_errors=True).close()
    except ExceptionGroup as several:
        heard = [error for error in several.exceptions if getattr(error, "errno", None) not in _NO_WAY]
        return bool(heard) and all(isinstance(error, ConnectionRefusedError) for error in heard)
    except (OSError, ValueError, OverflowError):
        pass
    return False


def is_number(host: str) -> bool:
    """Whether it needs no look-up."""
    try:
        ipaddress.ip_address(bare(host).partition("%")[0])
    except ValueError:
        return False
    return True


def numbers(address: str, family: socket.AddressFamily) -> list[str]:
    """`host:port` with each of the host's addresses of a family; none where its name is not known."""
    host, port = split(address)
    try:
        found = _looked_up(host, port, socket.SOCK_STREAM, family)
    except OSError:
        return []
    return list(dict.fromkeys(joined(str(where[0]), port) for *_, where in found))


def towards(host: str, port: int) -> str:
    """This machine's address on the way to a host: what the hosts there can use. Nothing is sent.

    Raises OSError when the host has no address or there is no way to it.
    """
    trouble: OSError | None = None
    for family, kind, protocol, _, address in _looked_up(host, port, socket.SOCK_DGRAM):
        with socket.socket(family, kind, protocol) as sock:
            try:
                sock.connect(address)
            except OSError as error:
                trouble = error
                continue
            return str(sock.getsockname()[0])
    raise trouble or OSError(f"{host}: no address")


def to_bind(host: str) -> list[str]:
    """The addresses of this machine that a host names, as numbers; of one that means every address itself.

    Raises OSError when it names none.
    """
    if is_all(host):
        return [bare(host)]
    found = _looked_up(host, 0, socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    numbers = list(dict.fromkeys(str(address[0]) for *_, address in found))
    return [number for number in numbers if _is_here(number)] or numbers[:1]


def free_port(numbers: Sequence[str], port: int = 0) -> int:
    """`port`, or if 0 any, that is free at all of these addresses of this machine just now. Raises OSError."""
    for _ in range(0 if port else _PORTS_TRIED - 1):
        with contextlib.suppress(OSError):
            return _bound_at_all(numbers, 0)
    return _bound_at_all(numbers, port)


def everywhere() -> list[str]:
    """For `free_port`: every address of this machine, those of IPv4 too."""
    return [bare(ALL) if socket.has_dualstack_ipv6() else _ALL_IPV4]


def _looked_up(host: str, port: int, kind: int, family: int = 0, flags: int = 0) -> list[tuple[Any, ...]]:
    """Raises OSError, also of what cannot be a name (`a..b`)."""
    try:
        return list(socket.getaddrinfo(bare(host), port, family, kind, 0, flags))
    except ValueError as error:  # a part that is empty, or too long for IDNA
        raise OSError(f"{host}: no machine can be called so: {error}") from error


def _bound_at_all(numbers: Sequence[str], port: int) -> int:
    with contextlib.ExitStack() as stack:
        for number in numbers:
            family = socket.AF_INET6 if ":" in number else socket.AF_INET
            sock = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, number != bare(ALL))
            sock.bind((number, port))
            sock.listen(1)  # with that option, what is bound is only taken when it listens
            port = int(sock.getsockname()[1])
    return port


def _is_here(number: str) -> bool:
    """Names may have addresses that a kernel does not have: `::1 localhost` stands in files of hosts without IPv6."""
    try:
        _bound_at_all([number], 0)
    except OSError:
        return False
    return True


def listen(host: str, port: int, backlog: int) -> socket.socket:
    """A listening TCP socket. Raises OSError."""
    if bare(host) == bare(ALL):
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
        host = _ALL_IPV4  # this kernel has no IPv6
    family, _, _, _, address = socket.getaddrinfo(bare(host), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server((str(address[0]), port), family=family, backlog=backlog)


def below_1024(error: Exception, address: str) -> str:
    """What to add where a port was refused because it is one of those that most systems keep for root; else nothing."""
    refused = isinstance(error, OSError) and error.errno == errno.EACCES
    port = address.rpartition(":")[2]
    is_low = port.isascii() and port.isdecimal() and 0 < int(port) < 1024
    return "; ports below 1024 are root's: take another" if refused and is_low else ""
