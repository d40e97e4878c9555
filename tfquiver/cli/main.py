"""`tfquiver`: the command line."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from tfquiver import errors, plain_text
from tfquiver.cli import forget, health, limit, mount, policy, token, warm
from tfquiver.cli.dashboard import command as dashboard
from tfquiver.cli.dataset_commands import dataset, digest, pack
from tfquiver.cli.doctor import command as doctor
from tfquiver.cli.sim_plan_trace import plan, sim, trace
from tfquiver.cli.status_and_explain import explain, status
from tfquiver.cli.up_stop_logs_clear import clear, logs, stop, up
from tfquiver.cluster_address.service_name import VARIABLE
from tfquiver.demo import run as demo
from tfquiver.roles_and_tokens import own_token
from tfquiver.version import VERSION

_ABOUT = f"""A cache for training data that many jobs share.

Every command that asks a cluster takes its coordinator's address (host:port)
or a cache directory of this machine, as --service WHERE or as what
{VARIABLE} names, and finds what runs on this machine without
either; and a token, where the cluster asks for one, as --auth_token_file
FILE or as what {own_token.VARIABLE} names."""
_LONGEST = 6000  # a path may have 4096 characters


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, whatever was typed."""

    def error(self, message: str) -> NoReturn:
        super().error(plain_text.plain(message, _LONGEST))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Of a word that is no command: which ones are near, instead of all there are."""
        if not isinstance(action, argparse._SubParsersAction) or value in action.choices:
            super()._check_value(action, value)
            return
        near = " or ".join(f"`{self.prog} {command}`" for command in _near(self, str(value)))
        hint = f"did you mean {near}?" if near else f"`{self.prog} --help` lists them all"
        raise argparse.ArgumentError(None, f"there is no command {value!r}: {hint}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Of `NAME -- --` argparse makes a word that is an empty list."""
        found, left = super().parse_known_args(args, namespace)
        for action in self._actions:
            if not action.option_strings and action.nargs is None and getattr(found, action.dest, None) == []:
                self.error(f"argument {action.metavar or action.dest}: expected one argument")
        if left and not _commands(self):
            # with the usage of this command, not of all
            self.error(f"unrecognized arguments: {' '.join(left)}{self._hint(left)}")
        return found, left

    def _hint(self, left: list[str]) -> str:
        if self._takes_sources() and not left[0].startswith("-"):
            return "; sources are given as --source URI"
        if all(map(os.path.lexists, left)):
            return "; the shell has put files in the place of a pattern, perhaps: quote it, as in 'train-*'"
        return ""

    def _takes_sources(self) -> bool:
        return "--source" in self._option_string_actions


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
        forget,
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


def _near(parser: argparse.ArgumentParser, word: str) -> list[str]:
    """Commands of this one and of those below it, as they are typed after it: those whose last word it is, else what
    looks like it."""
    paths = list(_paths(parser))
    same = [path for path in paths if path.rpartition(" ")[2] == word]
    last = {path.rpartition(" ")[2]: path for path in reversed(paths)}
    return same or [last[found] for found in difflib.get_close_matches(word, last, n=2)]


def _paths(parser: argparse.ArgumentParser) -> Iterator[str]:
    for commands in _commands(parser):
        for name, command in commands.choices.items():
            yield name
            yield from (f"{name} {below}" for below in _paths(command))


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
        said = plain_text.of_error(error, _LONGEST)
        as_json = getattr(arguments, "json", False) is True
        print(json.dumps({"error": said}) if as_json else f"tfquiver: {said}", file=sys.stderr)
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
