"""A server's command line: its own flags first in `--help`, `--version`, and one line for whatever is wrong with it."""

from __future__ import annotations

import difflib
import inspect
import math
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from absl import flags

from tfquiver import plain_text
from tfquiver.log_files_and_lines import log_lines
from tfquiver.version import VERSION

_HELP = ("--help", "-help", "--helpshort", "-helpshort", "-h", "-?")
_VERSION = ("--version", "-version")
_WIDTH = 100
_PROGRAMS = {"extender": "tfquiver-scheduler-extender"}  # of other names than their folders
_LONGEST = 400
_EXAMPLES = {"cache_dir": "/ssd/tfquiver", "work_dir": "/var/lib/tfquiver", "dispatcher": "host:5050"}
_MOST = 1 << 53  # as many milliseconds are told apart as seconds in a float
_NUMBERS: dict[str, Callable[[Any], bool]] = {
    "float": lambda value: value is None or math.isfinite(value),
    "int": lambda value: value is None or abs(value) <= _MOST,
}


def parser(about: str) -> Callable[[Sequence[str]], list[str]]:
    """For absl's `app.run(flags_parser=)`. `about`: what the server is, for `--help`.

    What it returns are the arguments that are no flags. Exits with code 0 after `--help` and `--version`, and with 2
    after one line that names the flag.
    """
    for flag in own():
        if (within := _NUMBERS.get(flag.flag_type())) is not None:
            flags.register_validator(flag.name, within, f"must be a finite number, at most {_MOST}")

    def parse(argv: Sequence[str]) -> list[str]:
        name = program(Path(argv[0]))
        asked = list(argv[1 : argv.index("--")] if "--" in argv else argv[1:])
        if any(argument in _HELP for argument in asked):
            _say(_help(name, about))
            raise SystemExit(0)
        if any(argument in _VERSION for argument in asked):
            _say(f"tfquiver {VERSION}")
            raise SystemExit(0)
        try:
            rest: list[str] = flags.FLAGS(list(argv))
        except flags.UnrecognizedFlagError as error:
            near = difflib.get_close_matches(error.flagname, [flag.name for flag in own()], n=1)
            raise _refused(name, f"{error}{f': did you mean --{near[0]}?' if near else ''}", argv) from error
        except flags.Error as error:
            is_missing = "must have a value other than None" in str(error)
            raise _refused(name, _missing(name) if is_missing else str(error), argv) from error
        except UnicodeDecodeError as error:
            raise _refused(name, f"--flagfile: not a text file (UTF-8): {error.reason}", argv) from error
        except (OSError, ValueError, RecursionError) as error:
            raise _refused(name, f"--flagfile: {error}", argv) from error
        if len(rest) > 1:
            raise _refused(name, f"unexpected argument: {rest[1]}", argv)
        return rest

    return parse


def _missing(program: str) -> str:
    """What is required and has not been given, with an example."""
    missing = [flag.name for flag in own() if is_required(flag)]
    example = " ".join([program, *(f"--{name}={_EXAMPLES.get(name, name.upper())}" for name in missing)])
    return f"{' and '.join(f'--{name}' for name in missing)} must be given: for example {example}"


def own() -> list[Any]:
    """The flags that are not absl's, those that must be given first, then those of which some must, then by name."""
    defined = [flag for module, made in flags.FLAGS.flags_by_module_dict().items() if _ours(module) for flag in made]
    return sorted(
        defined, key=lambda flag: (not is_required(flag), not choices(flag), flag.default is not None, flag.name)
    )


def is_required(flag: Any) -> bool:
    """Whether its default is refused."""
    return any(
        len(its.get_flags_names()) == 1 and _refuses(its) for its in flag.validators
    )  # the first: others may raise


def choices(flag: Any) -> list[str]:
    """What must be given of it and others: a sentence wherever their defaults are refused together."""
    return [its.message for its in flag.validators if len(its.get_flags_names()) > 1 and _refuses(its)]


def needed() -> list[str]:
    """Without what the server does not start. To be asked before a command line is read, as the two above."""
    ours = own()
    sentences = [f"--{flag.name} is required" for flag in ours if is_required(flag)]
    return sentences + list(dict.fromkeys(sentence for flag in ours for sentence in choices(flag)))


def _refuses(validator: Any) -> bool:
    try:
        validator.verify(flags.FLAGS)
    except flags.ValidationError:
        return True
    return False


def _ours(module: str) -> bool:
    return not module.startswith("absl.")


def program(path: Path) -> str:
    """`python -m tfquiver.service.node.main` is tfquiver-node, too."""
    return _PROGRAMS.get(path.parent.name, f"tfquiver-{path.parent.name}") if path.name == "main.py" else path.name


def _say(text: str) -> None:
    try:
        print(text, flush=True)
    except BrokenPipeError:  # whoever reads it has seen enough: nothing is left to write at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refused(program: str, what: str, argv: Sequence[str]) -> SystemExit:
    line = f"{plain_text.plain(' '.join(what.split()), _LONGEST)} (--help lists the flags)"
    print(log_lines.last(plain_text.plain(program), line, log_lines.is_json(argv)), file=sys.stderr)
    return SystemExit(2)


def _help(program: str, about: str) -> str:
    lines = [inspect.cleandoc(about), "", f"{program} [--flagfile=FILE] [--FLAG=VALUE ...]", ""]
    if sentences := needed():
        lines += [*textwrap.wrap(f"Flags: {'; '.join(sentences)}.", _WIDTH), ""]
    for flag in own():
        lines.append(f"  --{flag.name}={_default(flag)}")
        lines += textwrap.wrap(" ".join(flag.help.split()), _WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return "\n".join([*lines, "", "--version shows the version, --helpfull the flags of libraries too."])


def _default(flag: Any) -> str:
    if is_required(flag):
        return f"{flag.flag_type().upper()}   (required)"
    if choices(flag):
        return f"{flag.flag_type().upper()}   (see above)"
    if flag.default is None:
        return f"{flag.flag_type().upper()}   (no default)"
    if flag.flag_type() == "bool":
        return str(flag.default).lower()
    return ",".join(map(str, flag.default)) if isinstance(flag.default, list) else str(flag.default)
