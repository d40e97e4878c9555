"""The installed command: `main`, or what it lacks."""

from __future__ import annotations

from tfquiver.service.startup import with_extra


def run() -> None:
    with_extra.run("tfquiver.service.extender.main", "operator")
