"""How `--help` is laid out: usage in narrow terminals, commands beside what they do, paragraphs. Pure."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable

_INDENT = " " * 11  # of the lines below `usage: tfquiver ...`: there is room for the longest flag in 60 columns
# What stays on one line: all in one pair of brackets, a flag with its value, a word.
_PARTS = re.compile(r"\[.*?\]+(?=\s|$)|\(.*?\)+(?=\s|$)|-\S+ \S+|\S+")


class Layout(argparse.HelpFormatter):
    """Of every command."""

    def add_argument(self, action: argparse.Action) -> None:
        """Keeps room for the longest command beside what it does: argparse forgets that commands are indented once
        more."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            self._action_max_length += self._indent_increment

    def _format_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None,
    ) -> str:
        """As people type it: words, flags that must be there, other flags; only where a word is a command, flags stand
        in front of it. argparse puts flags first, of which one that takes several values would take the words, too, and
        all of it right of the command, where a terminal of 60 columns has no room."""
        if usage is not None:
            return super()._format_usage(usage, actions, groups, prefix)
        given, groups = list(actions), list(groups)
        by_need = sorted(given, key=lambda one: not one.required)  # a stable order
        flags = self._parts([one for one in by_need if one.option_strings], groups)
        words = self._parts([one for one in given if not one.option_strings], groups)
        has_commands = any(isinstance(one, argparse._SubParsersAction) for one in given)
        lines = [f"{'usage: ' if prefix is None else prefix}{self._prog}"]
        for part in flags + words if has_commands else words + flags:
            if len(lines[-1]) + 1 + len(part) <= self._width:
                lines[-1] += f" {part}"
            else:
                lines.append(f"{_INDENT}{part}")
        return "\n".join(lines) + "\n\n"

    def _parts(self, actions: list[argparse.Action], groups: Iterable[argparse._MutuallyExclusiveGroup]) -> list[str]:
        width, self._width = self._width, sys.maxsize
        try:
            on_one_line = super()._format_usage(None, actions, groups, "")
        finally:
            self._width = width
        return _PARTS.findall(on_one_line.strip().removeprefix(self._prog))


class Paragraphs(Layout):
    """An empty line in the description stays one."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(super(Paragraphs, self)._fill_text(one, width, indent) for one in text.split("\n\n"))


class AsWritten(Layout, argparse.RawDescriptionHelpFormatter):
    """No line of the description is broken."""
