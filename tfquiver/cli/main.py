"""`tfquiver`: the command line."""

from __future__ import annotations

import argparse
import difflib
import importlib
import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from tfquiver import errors, named_files, plain_text
from tfquiver.cli import help_layout, standard_streams
from tfquiver.cluster_address.service_name import VARIABLE
from tfquiver.roles_and_tokens import own_token
from tfquiver.version import VERSION

_ABOUT = f"""A cache for training data that many jobs share.

Every command that asks a cluster takes its coordinator's address (host:port) or a cache directory of this machine, as
--service WHERE or as what {VARIABLE} names, and finds what runs on this machine without either; and a token, where the
cluster asks for one, as --auth_token_file FILE or as what {own_token.VARIABLE} names."""
# Its module, which is imported when it is run: to import all of them took half a second, and most of what is done takes
# less. And what `--help` says of it.
_COMMANDS = {
    "demo": ("tfquiver.demo.run", "three Keras trials share one cache; then the same three without it"),
    "up": ("tfquiver.cli.up_stop_logs_clear.up", "a whole cluster on this machine, until Ctrl-C"),
    "stop": ("tfquiver.cli.up_stop_logs_clear.stop", "stop what runs in a cache directory of this machine"),
    "status": (
        "tfquiver.cli.status_asked_watched_explained.status",
        "what is wrong, if anything; then what is cached, read and saved",
    ),
    "explain": ("tfquiver.cli.status_asked_watched_explained.explain", "why a job or a data set has what it has"),
    "dashboard": ("tfquiver.cli.dashboard.command", "serve a page that shows a cluster, and open it"),
    "logs": ("tfquiver.cli.up_stop_logs_clear.logs", "print what servers of this machine have logged"),
    "health": ("tfquiver.cli.health", "say whether one server is ready, for probes"),
    "doctor": ("tfquiver.cli.doctor.command", "what may be wrong here, and what to do about it"),
    "warm": ("tfquiver.cli.dataset_commands.warm", "read a data set into the cache"),
    "clear": ("tfquiver.cli.up_stop_logs_clear.clear", "delete what is cached; data sets stay registered"),
    "mount": ("tfquiver.cli.mount", "show a data set's files as a file system"),
    "unmount": ("tfquiver.cli.mount", "take a mount away, also a stale one"),
    "dataset": ("tfquiver.cli.dataset_commands.dataset", "registered data sets, and how each is cached"),
    "policy": ("tfquiver.cli.policy", "who decides what nobody has set"),
    "limit": ("tfquiver.cli.limit", "say what a job may read from the object store"),
    "forget": ("tfquiver.cli.forget", "say that lost nodes are gone for good"),
    "digest": ("tfquiver.cli.dataset_commands.digest", "build, show and verify digests (.tfqd)"),
    "pack": ("tfquiver.cli.dataset_commands.pack", "make TFRecord files of images, tars, Parquet"),
    "sim": (
        "tfquiver.cli.sim_plan_trace_commands.sim",
        "what a cache, a policy or a scheduler would do for jobs and store bytes",
    ),
    "plan": ("tfquiver.cli.sim_plan_trace_commands.plan", "what a larger cache or a faster store would buy, and cost"),
    "trace": ("tfquiver.cli.sim_plan_trace_commands.trace", "record what the jobs of a cluster read, to simulate it"),
    "token": ("tfquiver.cli.token", "tokens: who may call the coordinator and the nodes"),
}
_ALONE = ("-h", "--help", "--version")  # flags that take no command
# What names a cluster elsewhere: `tfquiver.dataset(cache_dir=)`, `tfquiver mount --cache_dir`, servers' flags.
_NAMED_OTHERWISE = ("__cache_dir", "__coordinator", "__work_dir", "__where", "__node_dir", "__cluster")
_BEHIND = "flags stand behind the command"
_RENAMES = ("rename", "mv", "move")
_RENAMED = (
    "of the same source another name is made, for which nothing is read again (tfquiver dataset create NEW --source "
    "URI), then the old one is taken away (tfquiver dataset delete OLD)"
)
_LONGEST = 6000  # a path may have 4096 characters


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, whatever was typed."""

    def __init__(self, *, formatter_class: type[argparse.HelpFormatter] = help_layout.Layout, **more: Any) -> None:
        super().__init__(formatter_class=formatter_class, **more)

    def error(self, message: str) -> NoReturn:
        if message.endswith(" required: COMMAND"):
            message = f"which command? `{self.prog} --help` lists them"
        super().error(plain_text.plain(message, _LONGEST))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Of a word that is no command: which ones are near, instead of all there are."""
        if action.choices is None or value in action.choices:
            return
        if not isinstance(action, argparse._SubParsersAction):
            choices = [str(choice) for choice in action.choices]
            likely = difflib.get_close_matches(str(value), choices, n=1)
            hint = f"; did you mean {likely[0]}?" if likely else ""
            raise argparse.ArgumentError(action, f"{value!r} is none of {', '.join(choices)}{hint}")
        if self.prog.endswith(" dataset") and value in _RENAMES:
            raise argparse.ArgumentError(None, f"there is no command {value!r}: {_RENAMED}")
        flag = f"--{value}"  # `help` or `version` as a command
        if " " in self.prog and value in _COMMANDS:  # `dataset warm`: of all, not of those below this one
            meant = [f"tfquiver {value}"]
        else:
            found = [flag] if flag in self._option_string_actions else _near(self, str(value))
            meant = [f"{self.prog} {command}" for command in found]
        near = " or ".join(f"`{command}`" for command in meant)
        hint = f"did you mean {near}?" if near else f"`{self.prog} --help` lists them all"
        raise argparse.ArgumentError(None, f"there is no command {value!r}: {hint}")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Of `NAME -- --` argparse makes a word that is an empty list."""
        found, left = super().parse_known_args(args, namespace)
        for action in self._actions:
            if not action.option_strings and action.nargs is None and getattr(found, action.dest, None) == []:
                self.error(f"argument {action.metavar or action.dest}: expected one argument")
        if not _commands(self):
            found.shown = {
                action.dest: next((one for one in action.option_strings if one.startswith("--")), "")
                or str(action.metavar or action.dest)
                for action in self._actions
            }
        if left and not _commands(self):
            # with the usage of this command, not of all
            self.error(f"unrecognized arguments: {' '.join(left)}{self._hint(left)}")
        return found, left

    def _hint(self, left: list[str]) -> str:
        if self._takes_sources() and not left[0].startswith("-"):
            return "; sources are given as --source URI"
        if left[0].startswith("--"):
            flag = left[0].partition("=")[0].replace("-", "_")
            if flag in _NAMED_OTHERWISE and "--service" in self._option_string_actions:
                return "; here a cache directory, as a coordinator, is given as --service WHERE"
            near = difflib.get_close_matches(left[0].partition("=")[0], self._option_string_actions, n=1)
            return f"; did you mean {near[0]}?" if near else ""
        if all(map(os.path.lexists, left)):
            return "; the shell has put files in the place of a pattern, perhaps: quote it, as in 'train-*'"
        return ""

    def _takes_sources(self) -> bool:
        return "--source" in self._option_string_actions


def parser() -> argparse.ArgumentParser:
    """Every command; the parsed arguments have `run`, a function of them that gives the exit code."""
    return _parser(_COMMANDS)


def _parser(whole: Iterable[str]) -> argparse.ArgumentParser:
    """`whole`: commands with their arguments; of the others it is only known what `--help` says of them."""
    made = _Parser(prog="tfquiver", description=_ABOUT, formatter_class=help_layout.Paragraphs)
    made.add_argument("--version", action="version", version=f"tfquiver {VERSION}")
    subparsers = _Subparsers(made.add_subparsers(required=True, metavar="COMMAND"))
    whole = frozenset(whole)
    for name, (module, _) in _COMMANDS.items():
        if name not in whole:
            subparsers.add_parser(name)
        elif name not in subparsers.choices:  # some modules have two
            importlib.import_module(module).add_parser(subparsers)
    _describe(made)
    return made


class _Subparsers:
    """Of all commands: with what `--help` says of each."""

    def __init__(self, made: Any) -> None:
        self._made, self.choices = made, made.choices

    def add_parser(self, name: str, **more: Any) -> Any:
        return self._made.add_parser(name, help=_COMMANDS[name][1], **more)


def _check_begin(argv: Sequence[str]) -> None:
    """Ends the process where it begins with a flag that stands behind commands: argparse would take the flag's value
    for the command."""
    first, equals, value = argv[0].partition("=") if argv else ("", "", "")
    is_alone = any(one.startswith(first) for one in _ALONE)  # argparse knows flags by their beginnings
    if not first.startswith("-") or first == "--" or is_alone:
        return
    whole = _parser(_COMMANDS)
    at = next((at for at, word in enumerate(argv) if word in _COMMANDS), None)
    if at is None:
        near = difflib.get_close_matches(first, _ALONE, n=1)
        whole.error(f"unrecognized arguments: {first}; {f'did you mean {near[0]}?' if near else _BEHIND}")
    command, end = whole, at
    while end < len(argv) and (found := next((one.choices.get(argv[end]) for one in _commands(command)), None)):
        command, end = found, end + 1
    flags = command._option_string_actions
    near = [first] if first in flags else difflib.get_close_matches(first, flags, n=1)
    if not near:
        whole.error(f"unrecognized arguments: {first}; `{command.prog} --help` lists what there is")
    meant = shlex.join(["tfquiver", *argv[at:], f"{near[0]}{equals}{value}", *argv[1:at]])
    whole.error(f"{first}: {_BEHIND}: did you mean `{meant}`?")


def _needed(argv: Sequence[str]) -> Iterable[str]:
    """The commands whose arguments are to be known, to parse these: of a word that is none, those that look like it are
    looked for among all."""
    first = argv[0] if argv else "--help"
    if first in _COMMANDS:
        return [name for name, (module, _) in _COMMANDS.items() if module == _COMMANDS[first][0]]
    return [] if first in _ALONE else _COMMANDS


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
    argv = sys.argv[1:] if argv is None else argv
    arguments = argparse.Namespace(shown={})
    try:
        with standard_streams.written():
            _check_begin(argv)
            arguments = _parser(_needed(argv)).parse_args(argv)
            arguments.typed = shlex.join(["tfquiver", *argv])
            return int(arguments.run(arguments))
    except errors.TfquiverError as error:
        return _failed(error, arguments)
    except FileNotFoundError as error:
        if (lost := errors.of_lost_place(error)) is None:
            raise
        return _failed(lost, arguments)
    except PermissionError as error:  # of a folder on the way to what was named, for one
        if not isinstance(error.filename, str):
            raise
        return _failed(named_files.not_read(error, error.filename, error.filename), arguments)
    except UnicodeEncodeError as error:
        no_text = f"{plain_text.shortened(str(error.object))} is not text that can be sent (UTF-8)"
        return _failed(errors.InvalidArgumentError(no_text), arguments)
    except BrokenPipeError:  # as in `tfquiver status ... | head`
        return 141
    except KeyboardInterrupt:
        print("tfquiver: stopped", file=sys.stderr)
        return 130


def _failed(error: errors.TfquiverError, arguments: argparse.Namespace) -> int:
    from tfquiver.cli.as_typed import as_typed  # help needs none of it

    said = as_typed(plain_text.of_error(error, _LONGEST), arguments.shown)
    as_json = getattr(arguments, "json", False) is True
    print(json.dumps({"error": said}) if as_json else f"tfquiver: {said}", file=sys.stderr)
    return 1


def run() -> None:
    standard_streams.prepare()
    try:
        sys.exit(main())
    finally:
        standard_streams.leave()


if __name__ == "__main__":
    run()
