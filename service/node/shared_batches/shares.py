"""How much of a node's room for streams one user may have, so that whoever comes finds some. Pure."""

from __future__ import annotations


def left(total: int, used: int, own: int) -> int:
    """Of `total`, of which all have `used` and this user `own`: how much more it may have. Three quarters of what
    others have not, the last one, too."""
    others = used - own
    return max(0, -(-(total - others) * 3 // 4) - own)


def grant(total: int, used: int, own: int) -> int:
    """At most, for one stream: others of this user come, too."""
    return left(total, used, own) * 2 // 3
