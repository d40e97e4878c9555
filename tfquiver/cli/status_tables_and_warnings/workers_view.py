"""What `tfquiver status` says of tf.data service dispatchers and their workers (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tfquiver.plain_text import plain
from tfquiver.service.coordinator.nodes_mounts_dispatchers import dispatchers as kept


def problems(dispatchers: list[dict[str, Any]], told: Collection[str] = ()) -> Iterator[str]:
    """A sentence for each worker that epochs wait for in vain. `told`: addresses of those of which that is said."""
    for one in dispatchers:
        for worker in one["workers"]:
            if kept.is_unread(int(worker.get("unread_ms", 0))):
                yield (
                    f"worker {worker['address']} of dispatcher {one['address']} was lost at the end of an epoch, and "
                    f"has been back for {worker['unread_ms'] // 1000} s: nobody has asked for the rest of its part "
                    "since. Its trainer pauses, or has had all, and waits only to be told so: in "
                    f"{worker['unread_left_ms'] // 1000} s the dispatcher ends that part (--unread_task_timeout_ms, "
                    "5 minutes; trainers that read by tfquiver.distribute say that they wait: mostly 20 to 30 s)"
                )
            missed = kept.is_missed(int(worker["silent_ms"]), int(worker["idle_ms"]))
            if missed and worker["address"] not in told:
                yield (
                    f"worker {worker['address']} of dispatcher {one['address']} has not answered for "
                    f"{worker['silent_ms'] // 1000} s: an epoch that it has a part of may stand until the dispatcher "
                    "gives it up (--worker_timeout_ms, 10 s), and each later epoch waits a second or two for it; start "
                    "it again at that address; where it is gone for good, the dispatcher with --former_workers="
                    f"{worker['address']}, or, while nobody trains, with an empty --work_dir"
                )


def lost(dispatchers: list[dict[str, Any]]) -> Iterator[str]:
    """A sentence for each dispatcher that is missed."""
    for one in dispatchers:
        yield (
            f"dispatcher {one['address']} has told nothing of itself for {one['silent_ms'] // 1000} s: trainers that "
            "read through it get no further epoch; start it again at that address with its --work_dir, and they go on; "
            f"where it is gone for good, `tfquiver forget {one['address']}`, else it is forgotten after a day"
        )


def line(dispatcher: Mapping[str, Any]) -> str:
    workers = dispatcher["workers"]
    silent = sum(map(is_silent, workers))
    many = f"{len(workers)} worker{'s' if len(workers) != 1 else ''}"
    return f"dispatcher {plain(dispatcher['address'])}   {many}" + (f", {silent} silent" if silent else "")


def is_silent(worker: Mapping[str, Any]) -> bool:
    return kept.is_silent(int(worker["silent_ms"]))
