"""Which servers make a cluster on this machine, and their command lines (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfquiver.node_daemon_and_notes_in_directories.up_file import Ports

COORDINATOR, NODE, DISPATCHER, WORKER = KINDS = ("coordinator", "node", "dispatcher", "worker")
WITH_TENSORFLOW = frozenset({DISPATCHER, WORKER})
# A worker that its node was away from too long ends; whoever starts it again must not give up before the node is there.
_NODE_IS_STARTED_AGAIN = "--connect_timeout_s=240"
LOCKS = ("node.lock", "coordinator/lock", "dispatcher/dispatcher.lock")


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asked for.

    Args:
      directory: the node's cache directory; the others keep what they keep in it.
      quota: of the node, as its flag takes it; None: that of the last node there, or its default.
      flags: kind of server -> further flags.
      with_metrics: every server tells Prometheus, on this machine, at any port.
    """

    directory: Path
    workers: int = 1
    quota: str | None = None
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    with_metrics: bool = False


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """One server. `name` is for people and its log; servers of one kind are started together."""

    kind: str
    name: str
    number: int = 0  # among those of its kind

    @property
    def module(self) -> str:
        return f"tfquiver.service.{self.kind}.main"


def servers(wish: Wish) -> list[list[ServerPlan]]:
    """In the order of starting: those of one step need what those of the steps before it are."""
    steps = [[ServerPlan(COORDINATOR, COORDINATOR)], [ServerPlan(NODE, NODE)]]
    if wish.workers:
        steps.append([ServerPlan(DISPATCHER, DISPATCHER)])
        steps.append([ServerPlan(WORKER, f"{WORKER}-{number}", number) for number in range(wish.workers)])
    return steps


def progress(wish: Wish, up: int) -> str:
    """What a person waits for when so many steps are up; there are more."""
    steps = servers(wish)
    names = [step[0].kind if len(step) == 1 else f"{len(step)} {step[0].kind}s" for step in steps]
    doing = "loading TensorFlow" if steps[up][0].kind in WITH_TENSORFLOW else "starting"
    return f"so far up: {', '.join(names[:up])}; {doing}: {names[up]} ..."


def port(server: ServerPlan, ports: Ports) -> int:
    """Which the server should take; 0: any."""
    match server.kind:
        case "coordinator":
            return ports.coordinator
        case "dispatcher":
            return ports.dispatcher
        case "worker":
            return ports.workers[server.number] if server.number < len(ports.workers) else 0
    return 0


def with_port(server: ServerPlan, ports: Ports, taken: int) -> Ports:
    """`ports` with what the server got."""
    match server.kind:
        case "coordinator":
            return Ports(taken, ports.dispatcher, ports.workers)
        case "dispatcher":
            return Ports(ports.coordinator, taken, ports.workers)
        case "worker":
            known = ports.workers + [0] * (server.number + 1 - len(ports.workers))
            known[server.number] = taken
            return Ports(ports.coordinator, ports.dispatcher, known)
    return ports


def arguments(server: ServerPlan, wish: Wish, ports: Ports) -> list[str]:
    """Its command line; what the person gave comes last, and so counts."""
    at, own = wish.directory, f"--port={port(server, ports)}"
    match server.kind:
        case "coordinator":
            made = [own, f"--work_dir={at / 'coordinator'}"]
        case "node":
            made = [f"--cache_dir={at}", f"--coordinator=localhost:{ports.coordinator}"]
            made += [f"--quota={wish.quota}"] if wish.quota is not None else []
        case "dispatcher":
            made = [own, f"--work_dir={at / 'dispatcher'}", f"--node_dir={at}"]
            former = [f"localhost:{port}" for port in ports.workers[wish.workers :] if port]
            made += [f"--former_workers={','.join(former)}"] if former else []
        case _:
            made = [own, f"--node_dir={at}", f"--dispatcher=localhost:{ports.dispatcher}", _NODE_IS_STARTED_AGAIN]
    made += ["--metrics_address=localhost:0"] if wish.with_metrics else []
    return [*made, *wish.flags.get(server.kind, ())]
