"""The installed command: `main`, or what it lacks."""

from __future__ import annotations

from tfquiver.service.common_to_servers import with_extra


def run() -> None:
    with_extra.run("tfquiver.service.extender.main", "operator")
