"""The cluster that is meant where nobody may have named one: then it is what runs on this machine."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from tfquiver import errors
from tfquiver.cluster_address import running_nodes, service_name
from tfquiver.node_daemon_and_notes_in_directories import server_file, up_file
from tfquiver.plain_text import plain
from tfquiver.sizes_durations_amounts.amounts import many

_MOST_NAMED = 8
_OWN_NODE = "node"  # of a dispatcher, in its --work_dir


def named_or_running(given: str | os.PathLike[str] | None, argument: str = "--service=") -> list[str]:
    """What is named, here or in TFQUIVER_SERVICE; else `found`. Raises InvalidArgumentError: that is nothing."""
    if named := service_name.chosen(given):
        return [named]
    if not (running := found()):
        raise errors.InvalidArgumentError(
            "which cluster? no node of yours runs on this machine: give a coordinator (host:port) or a cache "
            f"directory, as {argument}WHERE or in {service_name.VARIABLE}; `tfquiver up DIRECTORY` starts a cluster"
        )
    return running


def one_named_or_running(given: str | os.PathLike[str] | None, argument: str = "--service=", command: str = "") -> str:
    """As `named_or_running`. Raises InvalidArgumentError also where there are several: `argument` says which, and
    behind `command`, where somebody has typed one, so that it can be typed again."""
    several = named_or_running(given, argument)
    if several[1:]:
        known = ", or ".join(f"{_as_typed(argument, one)} ({_whose(one)})" for one in several)
        again = f"; for example: {plain(command)} {_as_typed(argument, several[0])}" if command else ""
        raise errors.InvalidArgumentError(f"which of the {len(several)} clusters of this machine? {known}{again}")
    return several[0]


def to_be_stopped(given: str | os.PathLike[str] | None, unnamed: bool) -> str:
    """What is named, here or in TFQUIVER_SERVICE. Of what only happens to run here it is said what there is: it may be
    somebody else's who works under the same name.

    Args:
      unnamed: where nothing is named, and one node runs here, that one is meant; whose it is is not looked at.
    """
    if named := service_name.chosen(given):
        return named
    nodes = _stopped_as(running_nodes.directories())
    if unnamed and len(nodes) == 1:
        return str(nodes[0])
    there = dict.fromkeys([*nodes, *_stopped_as(running_nodes.work_dirs())])
    if not there:
        raise errors.InvalidArgumentError(
            "stop: which directory? nothing of yours runs on this machine, as far as can be seen: name one, here or in "
            f"{service_name.VARIABLE}"
        )
    known = _commands("stop", [(str(one), _what_runs_in(one)) for one in there])
    yes = "; --yes stops the only node, if it is yours and nobody reads" if len(nodes) == 1 else ""
    raise errors.InvalidArgumentError(f"stop: which of what runs here under your name? {known}{yes}")


def to_be_cleared(given: str | os.PathLike[str] | None) -> str:
    """As `to_be_stopped`; whose cache goes has to be said."""
    if named := service_name.chosen(given):
        return named
    if not (there := found()):
        raise errors.InvalidArgumentError(
            "clear: which cache? no node of yours runs on this machine: name a cache directory or a coordinator "
            f"(host:port), here or in {service_name.VARIABLE}"
        )
    known = _commands("clear", [(one, _whose(one, "all nodes of ")) for one in there])
    raise errors.InvalidArgumentError(f"clear: which of the caches here? {known}")


def _commands(command: str, several: Sequence[tuple[str, str]]) -> str:
    """To be pasted, and what is meant by each."""
    shown = [f"tfquiver {command} {shlex.quote(plain(where))} ({what})" for where, what in several[:_MOST_NAMED]]
    more = f" ({many(len(several) - _MOST_NAMED, 'directory', 'directories')} more)" if several[_MOST_NAMED:] else ""
    return f"{' or '.join(shown)}{more}"


def _stopped_as(directories: Iterable[Path]) -> list[Path]:
    """By which directory each server is stopped: that of the `tfquiver up`, or of the dispatcher, that keeps it running
    and would start it again."""
    return list(dict.fromkeys(_keeper(one) for one in directories))


def _keeper(directory: Path) -> Path:
    above = directory.parent
    server = server_file.running(above) if directory.name == _OWN_NODE else None
    kept = above if server and server.server == "dispatcher" else directory
    return next((one for one in (kept, kept.parent) if up_file.is_up(one)), kept)


def _what_runs_in(directory: Path) -> str:
    if up_file.is_up(directory):
        return "`tfquiver up`, all its servers"
    server = server_file.running(directory)
    return f"its {server.called}" if server else f"its node, of {_whose(str(directory))}"


def listening_on(port: int) -> str:
    """Words for the coordinator or dispatcher of this user on this machine that has the port; "": none has."""
    for directory in running_nodes.work_dirs():
        server = server_file.running(directory)
        if server is not None and server.address.endswith(f":{port}"):
            pid = up_file.pid_text(up := directory.parent)
            return (
                f"the {server.called} in {plain(directory)}"
                if pid is None
                else (f"`tfquiver up` (pid {pid or 'unknown'}) in {plain(up)}")
            )
    return ""


def found() -> list[str]:
    """The cache directories of this machine in which nodes of this user run, one for each cluster: one that people
    know, not the one that a dispatcher has for itself, where there is another."""
    by_coordinator: dict[str, str] = {}
    for directory in _known_first(running_nodes.directories()):
        try:
            by_coordinator.setdefault(service_name.coordinator_address(str(directory)), str(directory))
        except errors.TfquiverError:  # it is just starting or leaving
            continue
    return sorted(by_coordinator.values())


def _known_first(directories: Sequence[Path]) -> list[Path]:
    return sorted(directories, key=lambda one: (one.with_name("dispatcher.lock").exists(), one))


def _as_typed(argument: str, where: str) -> str:
    shown = plain(where)
    return f"{argument}{shlex.quote(shown) if argument.startswith('-') else repr(shown)}"


def _whose(directory: str, of_it: str = "") -> str:
    """What else people may know a cluster by."""
    try:
        coordinator = service_name.coordinator_address(directory)
    except errors.TfquiverError:  # it is just leaving
        return "a cache directory"
    alone = coordinator.startswith("unix:")
    return "a cache directory by itself" if alone else f"{of_it}coordinator {plain(coordinator)}"
