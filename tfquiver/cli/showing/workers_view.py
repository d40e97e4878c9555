"""What `tfquiver status` says of tf.data service dispatchers and their workers (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfquiver.plain_text import plain

_SILENT_MS = 5_000  # two questions that it did not answer, and a busy machine
_GIVEN_UP_MS = 600_000


def problems(dispatchers: list[dict[str, Any]]) -> Iterator[str]:
    """A sentence for each worker that epochs wait for in vain."""
    for one in dispatchers:
        for worker in one["workers"]:
            if is_silent(worker) and not _is_given_up(worker):
                yield (
                    f"worker {worker['address']} of dispatcher {one['address']} has not answered for "
                    f"{worker['silent_ms'] // 1000} s: an epoch that it has a part of may stand until the dispatcher "
                    "gives it up (--worker_timeout_ms, 10 s), and each later epoch waits a second or two for it; start "
                    "it again at that address, or, while nobody trains, the dispatcher with an empty --work_dir"
                )


def line(dispatcher: Mapping[str, Any]) -> str:
    workers = dispatcher["workers"]
    silent = sum(map(is_silent, workers))
    many = f"{len(workers)} worker{'s' if len(workers) != 1 else ''}"
    return f"dispatcher {plain(dispatcher['address'])}   {many}" + (f", {silent} silent" if silent else "")


def is_silent(worker: Mapping[str, Any]) -> bool:
    return int(worker["silent_ms"]) >= _SILENT_MS


def _is_given_up(worker: Mapping[str, Any]) -> bool:
    """The dispatcher never forgets a worker; but nobody has had to wait for this one for long."""
    return int(worker["silent_ms"]) > _GIVEN_UP_MS and int(worker["idle_ms"]) > _GIVEN_UP_MS
