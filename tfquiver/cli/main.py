"""`tfquiver`: the command line."""

from __future__ import annotations

import argparse
import sys

from tfquiver import errors
from tfquiver.cli import dataset, digest, status, token
from tfquiver.demo import run as demo


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tfquiver", description="A cache for training data that many jobs share.")
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
        print(f"tfquiver: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("tfquiver: stopped", file=sys.stderr)
        return 130


def run() -> None:
    sys.exit(main())


if __name__ == "__main__":
    run()
