"""`tfquiver token new`: makes a token, and the line by which the coordinator knows it."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from tfquiver import errors, named_files
from tfquiver.roles_and_tokens import tokens
from tfquiver.roles_and_tokens.identity import Role


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("token")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    new = commands.add_parser("new", help="a token, and its line for the coordinator's --tokens_file")
    new.add_argument("role", choices=[str(role) for role in Role], help="admin: people who run the cluster; node: "
                     "tfquiver-node, -dispatcher, -worker; job: trainers and those who start them")  # fmt: skip
    new.add_argument("name", metavar="NAME", help="whose it is; what is registered with it belongs to that name")
    new.add_argument(
        "--out",
        type=named_files.typed_path,
        metavar="FILE",
        help="write the token there (mode 0600), print only its line",
    )
    new.set_defaults(run=_new)


def _new(arguments: argparse.Namespace) -> int:
    token, line = tokens.new_token(Role(arguments.role), arguments.name)
    if arguments.out is not None:
        _write(arguments.out, token)
    else:
        print(f"token (for --auth_token_file; it is shown only now): {token}", file=sys.stderr)
    print(line)
    return 0


def _write(path: Path, token: str) -> None:
    """Never over another file: what stood there may be in use."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except (OSError, ValueError) as error:
        if not isinstance(error, FileExistsError):
            raise named_files.not_written(error, f"--out={path}", path) from error
        why = "is there already, and may be in use: give the name of a new file, or delete that one"
        if path.is_dir():
            why = f"is a directory: give the name of a new file, as in --out={path / 'token'}"
        raise errors.InvalidArgumentError(f"--out={path}: {why}") from error
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(token + "\n")
    except OSError as error:  # of half a token nobody has the line
        path.unlink(missing_ok=True)
        raise named_files.not_written(error, f"--out={path}", path) from error
