"""Servers of a `tfquiver up` of this machine that have ended and are not back yet, for `status` and `doctor`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from tfquiver import errors
from tfquiver.cluster_address import running_nodes, service_name
from tfquiver.grpc_plumbing import addresses
from tfquiver.node_daemon_and_notes_in_directories import up_file
from tfquiver.node_daemon_and_notes_in_directories.directory import node_id_in
from tfquiver.plain_text import plain


def collect(where: str) -> dict[str, Any] | None:
    """Of the `up` that runs in the directory `where`: its pid (0: not known yet), and of its servers that are away how
    each ended, and by what the cluster knows it (`node_id` or `address`). None: none runs there, or `where` is an
    address."""
    try:
        directory = service_name.directory_of(where)
    except errors.TfquiverError:
        return None
    if directory is None or (pid := up_file.pid_text(directory)) is None:
        return None
    ports = up_file.read(directory)
    away = [
        {"name": name, "ended": how, **_known_as(directory, ports, name)}
        for name, how in up_file.away(directory).items()
    ]
    return {"directory": str(directory), "pid": int(pid) if pid.isdecimal() else 0, "away": away}


def at(address: str) -> dict[str, Any] | None:
    """As `collect`, of the `up` of this user whose coordinator has that address on this machine, there or away."""
    if address.startswith("unix:") or addresses.leads_elsewhere(address):
        return None
    port = addresses.split(address)[1]
    there = (one for one in running_nodes.directories() if up_file.is_up(one) and up_file.read(one).coordinator == port)
    return collect(str(directory)) if (directory := next(there, None)) else None


def _known_as(directory: Path, ports: up_file.Ports, name: str) -> dict[str, str]:
    kind, _, number = name.partition("-")
    if kind == "node":
        known = node_id_in(directory)  # "": it did not get that far
        return {"node_id": known} if known else {}
    workers = {str(at): port for at, port in enumerate(ports.workers)}
    port = {"coordinator": ports.coordinator, "dispatcher": ports.dispatcher, "worker": workers.get(number)}.get(kind)
    return {"address": f"localhost:{port}"} if port else {}


def known_as(up: Mapping[str, Any] | None) -> Set[str]:
    """Ids and addresses of what is away: whatever else is said of these is said by `problems` (pure)."""
    return {one[key] for one in (up or {"away": ()})["away"] for key in ("node_id", "address") if key in one}


def problems(up: Mapping[str, Any] | None) -> Sequence[str]:
    """`up`: what `collect` gave (pure)."""
    return [] if up is None else [_problem(up, one) for one in up["away"]]


def said(up: Mapping[str, Any] | None, server: str) -> str:
    """What of `problems` is of its server of that name; "": it is not away (pure)."""
    return next((_problem(up, one) for one in up["away"] if one["name"] == server), "") if up else ""


def _problem(up: Mapping[str, Any], one: Mapping[str, Any]) -> str:
    return (
        f"the {one['name']} of {_called(up)} ended ({one['ended']}) and is started again, which takes some seconds: "
        f"there is nothing to do but to wait; why it ended: the end of {up['directory']}/log/{one['name']}.log"
    )


def silent(up: Mapping[str, Any] | None) -> str:
    """For who gets no answer there; "": no `up` has to do with it (pure)."""
    if up is None:
        return ""
    said = "; ".join(problems(up))
    return said or f"{_called(up)} runs, and is just starting or ending, or hangs: {up['directory']}/log says more"


def again(directory: Path, coordinator: str = "") -> str:
    """What brings back the `up` that ran there and runs no more; "": none ran there, or another cluster's coordinator
    is meant."""
    port = up_file.read(directory).coordinator
    if not port or up_file.is_up(directory) or coordinator not in ("", f"localhost:{port}"):
        return ""
    return f"`tfquiver up {shlex.quote(plain(directory))}` goes on with the cluster that ran there"


def _called(up: Mapping[str, Any]) -> str:
    pid = f" (pid {up['pid']})" if up["pid"] else ""
    return f"`tfquiver up`{pid} in {up['directory']}"
