"""The reference pages, made from the code: the public names, the commands with their arguments, the servers' flags.

`python .ci/site/reference.py api|command_line` prints one.
"""

from __future__ import annotations

import argparse
import html
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

SERVERS = {
    **{name: f"tfquiver-{name}" for name in ("coordinator", "node", "dispatcher", "worker", "operator")},
    "extender": "tfquiver-scheduler-extender",
}
# In a process of its own for each: flags of two servers may have one name.
_FLAGS_OF = """
import importlib, json, sys
main = importlib.import_module(sys.argv[1])
from tfquiver.service.common_to_servers import server_flags
if not server_flags.own():
    main.define_flags()
needed = lambda flag: "required" if server_flags.is_required(flag) else flag.default
told = [[flag.name, needed(flag), flag.help] for flag in server_flags.own()]
print(json.dumps({"about": main.__doc__, "needed": server_flags.needed(), "flags": told}))
"""


def api() -> str:
    import tfquiver

    lines = ["# Python", "", "Importing `tfquiver` does not import TensorFlow.", ""]
    for name in sorted(tfquiver.__all__, key=lambda name: (name[0].isupper(), name)):  # functions first
        lines += [f"::: {tfquiver._HOMES[name]}.{name}", "    options:", f"      heading: tfquiver.{name}", ""]
    lines += [
        "::: tfquiver.keras",
        "    options:",
        "      heading: tfquiver.keras",
        "      filters: ['!^_', '!^on_']",
        "",
    ]
    lines += [
        "::: tfquiver.tensorflow_client.step_times.step_monitor.StepMonitor",
        "    options:",
        "      heading: tfquiver.keras.StepMonitor",
        "      filters: ['!^_', '!^on_']",
        "",
    ]
    lines += ["::: tfquiver.errors", "    options:", "      heading: tfquiver.errors", "      members: false", ""]
    return "\n".join(lines)


def command_line() -> str:
    from tfquiver.cli.main import parser

    return "\n".join(["# Command line", "", *_command(parser()), *(line for one in SERVERS for line in _server(one))])


def _command(parser: argparse.ArgumentParser, about: str = "") -> Iterator[str]:
    """A command and the commands in it. argparse has no public way to walk through them."""
    subcommands = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    yield from (f"## {parser.prog}", "", about or parser.description or "", "")
    usage = parser.format_usage().removeprefix("usage: ")
    yield from ("```text", usage.rstrip(), "```", "")
    told = [
        (_spelled(action), _default(action.default), action.help or "")
        for action in parser._actions
        if action not in subcommands and action.help != argparse.SUPPRESS and action.dest != "help"
    ]
    yield from _table(("argument", "default", "meaning"), told)
    for action in subcommands:
        helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
        for name, one in action.choices.items():
            yield from _command(one, _sentence(helps.get(name, "")))


def _spelled(action: argparse.Action) -> str:
    value = action.metavar or (None if action.nargs == 0 else action.dest.upper())
    if action.choices and not action.metavar:
        value = "|".join(map(str, action.choices))
    if not action.option_strings:
        return str(action.metavar or action.dest)
    return ", ".join(action.option_strings) + ("" if action.nargs == 0 or value is None else f" {value}")


def _server(name: str) -> Iterator[str]:
    module = f"tfquiver.service.{name}.main"
    ran = subprocess.run([sys.executable, "-c", _FLAGS_OF, module], capture_output=True, text=True, check=True)
    told = json.loads(ran.stdout)
    yield from (f"## {SERVERS[name]}", "", _prose(told["about"]), "")
    yield from ("```text", f"{SERVERS[name]} [--flagfile=FILE] [--FLAG=VALUE ...]", "```", "")
    yield from (_sentence("; ".join(told["needed"])), "")
    flags = [(f"--{flag}", _default(default), text) for flag, default, text in told["flags"]]
    yield from _table(("flag", "default", "meaning"), flags)


def _table(heads: tuple[str, ...], rows: list[tuple[str, str, str]]) -> Iterator[str]:
    if not rows:
        return
    yield "| " + " | ".join(heads) + " |"
    yield "|---" * len(heads) + "|"
    for spelled, default, meaning in rows:
        cells = (
            f"`{spelled}`",
            f"`{default}`" if default and default != "required" else default,
            html.escape(meaning, quote=False),
        )
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
    yield ""


def _default(value: Any) -> str:
    if value is None or value is False or value == "" or value == []:
        return "" if value is not False else "off"
    return "on" if value is True else str(value)


def _prose(docstring: str) -> str:
    return html.escape("\n".join(line.strip() for line in docstring.strip().split("\n")), quote=False)


def _sentence(text: str) -> str:
    return html.escape(text[:1].upper() + text[1:].rstrip(".") + "." if text else "", quote=False)


if __name__ == "__main__":
    print({"api": api, "command_line": command_line}[sys.argv[1]]())
