"""What is printed in a server goes to its log; standard output has the lines that scripts wait for, and nothing else.

Code of others prints what and when it likes: a policy, a sampling scheme, a library below them. In front of the ready
line it would be taken for that; behind it nobody reads any more, and who prints into a pipe that is full waits for
ever, or fails where it was closed.
"""

from __future__ import annotations

import os
import sys

_OUTPUT, _ERROR = 1, 2
_lines = _OUTPUT  # the descriptor that they are written to


def to_log() -> None:
    """From now on, for good; standard error is the log already."""
    global _lines  # of a process, as its descriptors are
    sys.stdout.flush()
    _lines = os.dup(_OUTPUT)
    os.dup2(_ERROR, _OUTPUT)
    sys.stdout = sys.stderr


def line(text: str) -> None:
    """To whoever waits for it. Raises OSError: nobody does."""
    sys.stdout.flush()
    os.write(_lines, text.encode() + b"\n")
