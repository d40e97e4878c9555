"""Mounts of this machine, in `tfquiver status`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfquiver.mounting import mount_points


def collect() -> list[dict[str, Any]]:
    """`trouble`: "" where it answers."""
    found = mount_points.mounts()
    return [{"path": one.path, "dataset": one.name, "trouble": mount_points.trouble(one)} for one in found]


def problems(mounts: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"the mount at {one['path']} ({one['dataset']}) is stale, its process was killed: `tfquiver mount` there again "
        f"or `tfquiver unmount {one['path']}`"
        if one["trouble"] == "stale"
        else f"the mount at {one['path']} ({one['dataset']}): {one['trouble']}"
        for one in mounts
        if one["trouble"]
    ]


def lines(mounts: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"mounted here: {one['dataset']} at {one['path']}" for one in mounts if not one["trouble"]]
