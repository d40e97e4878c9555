"""Mounts of this machine, in `tfquiver status`. A mount says of which data set it is, not of which cluster: those of
data sets that the cluster does not have are another one's, and left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfquiver import plain_text
from tfquiver.mounting import mount_points


def collect() -> list[dict[str, Any]]:
    """`trouble`: "" where it answers."""
    found = mount_points.mounts()
    return [{"path": one.path, "dataset": one.name, "trouble": mount_points.trouble(one)} for one in found]


def problems(mounts: Sequence[Mapping[str, Any]], datasets: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"the mount at {one['path']} ({one['dataset']}) is stale, its process was killed: `tfquiver mount` there again "
        f"or `tfquiver unmount {plain_text.for_shell(one['path'])}`"
        if one["trouble"] == "stale"
        else f"the mount at {one['path']} ({one['dataset']}): {one['trouble']}"
        for one in _of(datasets, mounts)
        if one["trouble"]
    ]


def lines(mounts: Sequence[Mapping[str, Any]], datasets: Sequence[Mapping[str, Any]]) -> list[str]:
    shown = (one for one in _of(datasets, mounts) if not one["trouble"])
    return [f"mounted on this machine: {one['dataset']} at {one['path']}" for one in shown]


def _of(datasets: Sequence[Mapping[str, Any]], mounts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    its = {mount_points.fs_name(one["name"]) for one in datasets} if mounts else set()
    return [one for one in mounts if one["dataset"] in its]
