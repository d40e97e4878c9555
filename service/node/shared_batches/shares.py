"""How much of a node's room for streams one user may have, so that nobody takes all of it alone. Pure."""

from __future__ import annotations

from tfquiver.sizes_durations_amounts.amounts import many, of_bytes


def left(total: int, used: int, own: int) -> int:
    """Of `total`, of which all have `used` and this user `own`: how much more it may have. Three quarters of what
    others have not, the last one, too."""
    others = used - own
    return max(0, -(-(total - others) * 3 // 4) - own)


def grant(total: int, used: int, own: int) -> int:
    """At most, for one stream: others of this user come, too."""
    return left(total, used, own) * 2 // 3


def refusal(uid: int, streams: int, most_streams: int, used_bytes: int, users: int, own: int, own_bytes: int) -> str:
    """Why a user may have no further stream. `used_bytes`: of the windows of all; `users`: who have streams."""
    every = f"{many(streams, 'stream')} with {of_bytes(used_bytes)}"
    if own:
        has = f"{many(own, 'stream')} with {of_bytes(own_bytes)} of windows on this node"
        return f"user {uid} has {has} (all users: {every}), and may have no more: room is kept for other users"
    all_of = f"all {many(most_streams, 'stream')}" if streams >= most_streams else "all windows for streams"
    return f"{all_of} of this node are taken, by {many(users, 'user')}: {every} of windows"


def too_large(batch_bytes: int, window_bytes: int, asked_bytes: int) -> str:
    """Why a window has no batch of that size. `asked_bytes`: for the window, by who made the stream."""
    said = f"a batch of {of_bytes(batch_bytes)} in a window of {of_bytes(window_bytes)}, which takes a quarter of that"
    if window_bytes >= asked_bytes:
        return f"{said}: window_bytes= must be four times a batch"
    return (
        f"{said}, and is all that this node has for this user of the {of_bytes(asked_bytes)} that were asked for: make "
        "smaller batches before one_stream, or end other streams"
    )
