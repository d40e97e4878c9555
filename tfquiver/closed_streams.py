"""Standard input, output and error that were closed for a process, as `>&-` does: what is written there goes nowhere,
and no file or socket that is opened later has their numbers."""

from __future__ import annotations

import os
import sys

_NAMES = ("stdin", "stdout", "stderr")


def opened() -> None:
    """For a program of ours. To be called before anything else is opened."""
    numbers_taken()
    for number, name in enumerate(_NAMES):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", errors="backslashreplace", closefd=False))  # noqa: SIM115


def numbers_taken() -> None:
    """For somebody else's program, as a trainer, before it is given connections: one of them would be its standard
    output, and what TensorFlow or another library prints would stand between two messages."""
    if all(map(_is_open, range(len(_NAMES)))):
        return
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < len(_NAMES):
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
