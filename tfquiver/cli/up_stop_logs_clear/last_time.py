"""What an `up` runs with: what a person gives now, else what the last one in the directory was given (pure)."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfquiver.local_cluster.plan import Wish
from tfquiver.node_daemon_and_notes_in_directories.up_file import Given

_WORKERS = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """As of Wish; None: not given."""

    workers: int | None = None
    quota: str | None = None
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)


def wish(directory: Path, asked: Asked, last: Given) -> tuple[Wish, list[str]]:
    """Also what people are told: what is taken from last time, and what is not.

    Further flags are not: nobody could take one back.
    """
    made = Wish(
        directory,
        next((workers for workers in (asked.workers, last.workers) if workers is not None), _WORKERS),
        asked.quota if asked.quota is not None else last.quota or None,
        asked.flags,
    )
    kept = []
    if asked.workers is None and made.workers != _WORKERS:
        kept.append(f"--workers={made.workers}")
    if asked.quota is None and made.quota is not None:
        kept.append(f"--quota={made.quota}")
    lines = [f"as last time: {' '.join(kept)} (give what shall be otherwise)"] if kept else []
    if left_out := _left_out(asked.flags, last.flags):
        lines.append(f"without these of last time, which are to be given each time: {shlex.join(left_out)}")
    return made, lines


def given(made: Wish) -> Given:
    """What the next one is to know of this one."""
    return Given(made.workers, made.quota, {kind: list(flags) for kind, flags in made.flags.items() if flags})


def _left_out(now: Mapping[str, Sequence[str]], last: Mapping[str, Sequence[str]]) -> list[str]:
    """Flags of which another value is given now are not left out."""
    return [
        f"--{kind}_flag={flag}"
        for kind, flags in last.items()
        for flag in flags
        if _name(flag) not in map(_name, now.get(kind, ()))
    ]


def _name(flag: str) -> str:
    return flag.lstrip("-").partition("=")[0]
