"""Fields of an object that somebody wrote, checked: whoever made it may have got around the schema. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfquiver import errors
from tfquiver.plain_text import plain

_SHOWN = 60


class Fields:
    """The members of one mapping. Every method raises InvalidArgumentError that names the field by its path."""

    def __init__(self, given: Any, path: str) -> None:
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            raise wrong(path, "is not an object", given)
        self._given, self._path = given, path

    def text(self, name: str, default: str = "", most: int = 1024) -> str:
        value = self._given.get(name, default)
        if not isinstance(value, str) or len(value) > most or not value.isprintable():
            raise wrong(f"{self._path}.{name}", f"is not a text of at most {most} printable characters", value)
        return value

    def flag(self, name: str) -> bool:
        value = self._given.get(name, False)
        if not isinstance(value, bool):
            raise wrong(f"{self._path}.{name}", "is neither true nor false", value)
        return value

    def number(self, name: str, default: int, least: int, most: int) -> int:
        value = self._given.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise wrong(f"{self._path}.{name}", f"is not a number from {least} to {most}", value)
        return value

    def optional_number(self, name: str, least: int, most: int) -> int | None:
        """None: it is not there."""
        return None if self._given.get(name) is None else self.number(name, least, least, most)

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """The first is the default."""
        value = self._given.get(name, choices[0])
        if value not in choices:
            raise wrong(f"{self._path}.{name}", f"is none of {', '.join(choices)}", value)
        return str(value)

    def texts(self, name: str, most: int) -> tuple[str, ...]:
        value = self._given.get(name, [])
        if not isinstance(value, list) or len(value) > most:
            raise wrong(f"{self._path}.{name}", f"is not a list of at most {most}", value)
        for number, one in enumerate(value):
            if not isinstance(one, str) or not one or len(one) > 4096 or not one.isprintable():
                raise wrong(f"{self._path}.{name}[{number}]", "is not a text", one)
        return tuple(value)

    def inner(self, name: str) -> Fields:
        return Fields(self._given.get(name), f"{self._path}.{name}")

    def mapping(self, name: str) -> dict[str, Any]:
        """As it is; a copy of its first level."""
        value = self._given.get(name, {})
        if not isinstance(value, Mapping):
            raise wrong(f"{self._path}.{name}", "is not an object", value)
        return dict(value)

    def mappings(self, name: str) -> list[dict[str, Any]]:
        value = self._given.get(name) or []
        if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
            raise wrong(f"{self._path}.{name}", "is not a list of objects", value)
        return [dict(one) for one in value]


def wrong(path: str, what: str, value: Any) -> errors.InvalidArgumentError:
    shown = plain(repr(value), _SHOWN)
    return errors.InvalidArgumentError(f"{path} {what}: {shown}")
