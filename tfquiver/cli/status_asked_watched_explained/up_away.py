"""Servers of a `tfquiver up` of this machine that have ended and are not back yet, in `tfquiver status`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfquiver import errors
from tfquiver.cluster_address import service_name
from tfquiver.notes_in_cache_and_work_directories import up_file


def collect(where: str) -> dict[str, Any] | None:
    """Of the `up` that runs in the directory `where`: its pid (0: not known yet), and of its servers that are away how
    each ended. None: none runs there, or `where` is an address."""
    try:
        directory = service_name.directory_of(where)
    except errors.TfquiverError:
        return None
    if directory is None or (pid := up_file.pid_text(directory)) is None:
        return None
    away = [{"name": name, "ended": how} for name, how in up_file.away(directory).items()]
    return {"directory": str(directory), "pid": int(pid) if pid.isdecimal() else 0, "away": away}


def problems(up: Mapping[str, Any] | None) -> Sequence[str]:
    """`up`: what `collect` gave (pure)."""
    if up is None:
        return []
    return [
        f"the {one['name']} of {_called(up)} ended ({one['ended']}) and is started again, which takes some seconds; "
        f"why it ended: the end of {up['directory']}/log/{one['name']}.log"
        for one in up["away"]
    ]


def silent(up: Mapping[str, Any] | None) -> str:
    """For who gets no answer there; "": no `up` has to do with it (pure)."""
    if up is None:
        return ""
    said = "; ".join(problems(up))
    return said or f"{_called(up)} runs, and is just starting or ending, or hangs: {up['directory']}/log says more"


def _called(up: Mapping[str, Any]) -> str:
    pid = f" (pid {up['pid']})" if up["pid"] else ""
    return f"`tfquiver up`{pid} in {up['directory']}"
