"""Standard input, output and error that were closed for a process, as `>&-` does: what is written there goes nowhere,
and no file that is opened later has their numbers."""

from __future__ import annotations

import os
import sys

_NAMES = ("stdin", "stdout", "stderr")


def opened() -> None:
    """To be called before anything else is opened."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < len(_NAMES):
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    for number, name in enumerate(_NAMES):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", errors="backslashreplace", closefd=False))  # noqa: SIM115
