"""The cluster that is meant where nobody may have named one: then it is what runs on this machine."""

from __future__ import annotations

import os

from tfquiver import errors
from tfquiver.cluster_address import service_name
from tfquiver.node_daemon import running_nodes
from tfquiver.plain_text import plain


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


def one_named_or_running(given: str | os.PathLike[str] | None, argument: str = "--service") -> str:
    """As `named_or_running`. Raises InvalidArgumentError also where there are several: `argument` says which."""
    several = named_or_running(given)
    if several[1:]:
        raise errors.InvalidArgumentError(
            f"which of the clusters of this machine? give one as {argument}: {', '.join(map(plain, several))}"
        )
    return several[0]


def one_node_named_or_running(given: str | os.PathLike[str] | None) -> str:
    """As `one_named_or_running`, for what is done to one node: of several of one cluster none is chosen either."""
    nodes = [] if service_name.chosen(given) else running_nodes.directories()
    if nodes[1:]:
        known = ", ".join(plain(str(node)) for node in nodes)
        raise errors.InvalidArgumentError(f"which of the nodes of this machine? give one as --service: {known}")
    return one_named_or_running(given)


def found() -> list[str]:
    """The cache directories of this machine in which nodes of this user run, one for each cluster."""
    by_coordinator: dict[str, str] = {}
    for directory in running_nodes.directories():
        try:
            by_coordinator.setdefault(service_name.coordinator_address(str(directory)), str(directory))
        except errors.TfquiverError:  # it is just starting or leaving
            continue
    return list(by_coordinator.values())
