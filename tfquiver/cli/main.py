"""`tfquiver`: the command line."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from tfquiver import errors
from tfquiver.cli import dataset, digest, status, token
from tfquiver.demo import run as demo
from tfquiver.trust import plain_text
from tfquiver.version import VERSION

_LONGEST = 6000  # a path may have 4096 characters


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, whatever was typed."""

    def error(self, message: str) -> NoReturn:
        super().error(plain_text.plain(message, _LONGEST))


def main(argv: list[str] | None = None) -> int:
    parser = _Parser(prog="tfquiver", description="A cache for training data that many jobs share.")
    parser.add_argument("--version", action="version", version=f"tfquiver {VERSION}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    dataset.add_parser(subparsers)
    digest.add_parser(subparsers)
    status.add_parser(subparsers)
    token.add_parser(subparsers)
    demo.add_parser(subparsers)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except errors.TfquiverError as error:
        print(f"tfquiver: {plain_text.plain(error, _LONGEST)}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # as in `tfquiver status ... | head`; nothing is left to be written at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("tfquiver: stopped", file=sys.stderr)
        return 130


def run() -> None:
    sys.exit(main())


if __name__ == "__main__":
    run()
