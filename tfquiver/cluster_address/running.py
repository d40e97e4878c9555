"""The cluster that is meant where nobody may have named one: then it is what runs on this machine."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from tfquiver import errors
from tfquiver.amounts import many
from tfquiver.cluster_address import service_name
from tfquiver.node_daemon_and_cache_directory import running_nodes
from tfquiver.plain_text import plain

_MOST_NAMED = 8


def named_or_running(given: str | os.PathLike[str] | None) -> list[str]:
    """What is named, here or in TFQUIVER_SERVICE; else `found`. Raises InvalidArgumentError: that is nothing."""
    if named := service_name.chosen(given):
        return [named]
    if not (running := found()):
        raise errors.InvalidArgumentError(
            "which cluster? no node of yours runs on this machine: give a coordinator (host:port) or a cache "
            f"directory, here (--help says where) or in {service_name.VARIABLE}; `tfquiver up DIRECTORY` starts a "
            "cluster"
        )
    return running


def one_named_or_running(given: str | os.PathLike[str] | None, argument: str = "--service=", command: str = "") -> str:
    """As `named_or_running`. Raises InvalidArgumentError also where there are several: `argument` says which, and
    behind `command`, where somebody has typed one, so that it can be typed again."""
    several = named_or_running(given)
    if several[1:]:
        known = ", or ".join(f"{_as_typed(argument, one)} ({_whose(one)})" for one in several)
        again = f"; for example: {plain(command)} {_as_typed(argument, several[0])}" if command else ""
        raise errors.InvalidArgumentError(f"which of the {len(several)} clusters of this machine? {known}{again}")
    return several[0]


def to_be_stopped(given: str | os.PathLike[str] | None, unnamed: bool) -> str:
    """What is named, here or in TFQUIVER_SERVICE. Of what only happens to run here it is said what there is: it may be
    somebody else's who works under the same name.

    Args:
      unnamed: where nothing is named, and one node runs here, that one is meant.
    """
    if named := service_name.chosen(given):
        return named
    nodes = running_nodes.directories()
    if unnamed and len(nodes) == 1:
        return str(nodes[0])
    there = [*nodes, *running_nodes.work_dirs()]
    if not there:
        raise errors.InvalidArgumentError(
            "stop: which directory? nothing of yours runs on this machine, as far as can be seen: name one, here or in "
            f"{service_name.VARIABLE}"
        )
    known = " or ".join(f"tfquiver stop {shlex.quote(plain(str(one)))}" for one in there[:_MOST_NAMED])
    more = f" ({many(len(there) - _MOST_NAMED, 'directory', 'directories')} more)" if there[_MOST_NAMED:] else ""
    yes = "; --yes stops the only node" if len(nodes) == 1 else ""
    raise errors.InvalidArgumentError(f"stop: which of what runs here under your name? {known}{more}{yes}")


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


def _whose(directory: str) -> str:
    """What else people may know a cluster by."""
    try:
        coordinator = service_name.coordinator_address(directory)
    except errors.TfquiverError:  # it is just leaving
        return "a cache directory"
    return "a cache directory by itself" if coordinator.startswith("unix:") else f"coordinator {plain(coordinator)}"
