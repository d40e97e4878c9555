"""`tfquiver`: the command line."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, NoReturn

from tfquiver import errors, plain_text
from tfquiver.cli import clear, digest, logs, mount, pack, stop, token, up, warm
from tfquiver.cli.dashboard import command as dashboard
from tfquiver.cli.doctor import command as doctor
from tfquiver.cli.settings import dataset, limit, policy
from tfquiver.cli.showing import explain, health, status
from tfquiver.cli.simulating import plan, sim, trace
from tfquiver.cluster_address.service_name import VARIABLE
from tfquiver.demo import run as demo
from tfquiver.trust import own_token
from tfquiver.version import VERSION

_ABOUT = f"""A cache for training data that many jobs share.

Every command that asks a cluster takes its coordinator's address (host:port)
or a cache directory of this machine, as --service WHERE or as what
{VARIABLE} names; and a token, where the cluster asks for one, as
--auth_token_file FILE or as what {own_token.VARIABLE} names."""
_LONGEST = 6000  # a path may have 4096 characters


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, whatever was typed."""

    def error(self, message: str) -> NoReturn:
        super().error(plain_text.plain(message, _LONGEST))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Of `NAME -- --` argparse makes a word that is an empty list."""
        found, left = super().parse_known_args(args, namespace)
        for action in self._actions:
            if not action.option_strings and action.nargs is None and getattr(found, action.dest, None) == []:
                self.error(f"argument {action.metavar or action.dest}: expected one argument")
        if left and not _commands(self):
            self.error(f"unrecognized arguments: {' '.join(left)}")  # with the usage of this command, not of all
        return found, left


def parser() -> argparse.ArgumentParser:
    """Every command; the parsed arguments have `run`, a function of them that gives the exit code."""
    made = _Parser(prog="tfquiver", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--version", action="version", version=f"tfquiver {VERSION}")
    subparsers = made.add_subparsers(required=True, metavar="COMMAND")
    for command in (
        demo,
        up,
        stop,
        status,
        explain,
        dashboard,
        logs,
        health,
        doctor,
        warm,
        clear,
        mount,
        dataset,
        policy,
        limit,
        digest,
        pack,
        sim,
        plan,
        trace,
        token,
    ):
        command.add_parser(subparsers)
    _describe(made)
    return made


def _commands(parser: argparse.ArgumentParser) -> list[argparse._SubParsersAction[Any]]:
    return [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]


def _describe(parser: argparse.ArgumentParser) -> None:
    """The `--help` of a command that says no more of itself begins with what the list of commands says of it."""
    for commands in _commands(parser):
        about = {shown.dest: shown.help or "" for shown in commands._choices_actions}
        for name, command in commands.choices.items():
            command.description = command.description or f"{about[name][:1].upper()}{about[name][1:]}."
            _describe(command)


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except errors.TfquiverError as error:
        print(f"tfquiver: {plain_text.of_error(error, _LONGEST)}", file=sys.stderr)
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
