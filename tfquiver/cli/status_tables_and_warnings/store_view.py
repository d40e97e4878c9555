"""What `tfquiver status` says of an object store that jobs wait for (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfquiver.cli.status_tables_and_warnings.words import job, size
from tfquiver.plain_text import plain
from tfquiver.sizes_durations_amounts.amounts import many

_SLOW_MS = 10_000  # one read, of 16 MiB at most: a store that is well has answered long before
_WAITS = 0.5  # who waits for less of its time is not held up much
_MOST_NAMED = 3


def problems(store: Mapping[str, Any], sessions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """That reads take long by itself is none: nobody may wait for them."""
    oldest_ms = int(store.get("oldest_ms", 0))
    held_up = {
        job(info): info["stall_share"]
        for info in sessions
        if info["readers"] and info.get("stall_share", 0.0) >= _WAITS
    }
    if oldest_ms < _SLOW_MS or not held_up:
        return
    named = [f"{plain(name)} ({share:.0%} of its time)" for name, share in list(held_up.items())[:_MOST_NAMED]]
    more = f" and {len(held_up) - _MOST_NAMED} more" if len(held_up) > _MOST_NAMED else ""
    wait = "waits" if len(held_up) == 1 else "wait"
    rate, most = (size(round(store.get(f"{key}bytes_per_s", 0.0))) for key in ("", "most_"))
    yield (
        f"{many(len(held_up), 'job')} {wait} while the object store is slow or hangs: {', '.join(named)}{more}; a "
        f"read there took {oldest_ms // 1000} s or more lately, and it gives {rate}/s (in the last hour up to "
        f"{most}/s); look at it and at the network to it (`tfquiver doctor --store GLOB` reads there; nodes' logs name "
        "the files): jobs go on by themselves when it answers"
    )
