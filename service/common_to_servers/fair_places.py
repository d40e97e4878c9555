"""Who of many callers has to make room for another one: where all places are taken, who has the most of them (pure).

Called by what answers browsers and Prometheus. No address has a limit of its own, because a proxy is one address for
everybody behind it: only where somebody else would be refused does the one with the most lose what it took last.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from typing import TypeVar

Place = TypeVar("Place")
_NETWORK = 64  # bits of an IPv6 address: of the others each machine may have as many as it likes


def caller(address: str) -> str:
    """Who that is, for these purposes; an address is as the socket tells it."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped:
            return str(ip.ipv4_mapped)
        return str(ipaddress.ip_network((ip, _NETWORK), strict=False))
    return str(ip)


def to_leave(taken: dict[Place, str], comer: str, overdue: Place | None = None) -> Place | None:
    """Of all places that there are, by who has them, those that were taken last being last: the one that makes room.
    None: the comer is one of those who have the most, and is to be refused.

    Args:
      overdue: has been taken for longer than anybody needs it. It goes to a comer that has none where everybody has
        one: as many callers as there are places would else keep all others away.
    """
    has = Counter(taken.values())
    most, number = has.most_common(1)[0]
    if has[comer] + 1 >= number:
        return overdue if comer not in has else None
    return next(place for place in reversed(taken) if taken[place] == most)
