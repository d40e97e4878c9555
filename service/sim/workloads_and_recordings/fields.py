"""One JSON object's fields, each by its kind; errors begin with where the field stands. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tfquiver import errors
from tfquiver.plain_text import shortened
from tfquiver.service.coordinator.policies.views_and_plans.check import MOST_BYTES_PER_S
from tfquiver.sizes_durations_amounts.sizes import parse_bytes

_REQUIRED: Any = object()
_LONGEST_BARE = 40
LONGEST_NAME = 200  # characters: names stand in columns, as wide as the longest


def is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_NAME


class Fields:
    """The fields of one JSON object, each by its kind; errors begin with where it stands."""

    def __init__(self, data: object, where: str, known: Collection[str]) -> None:
        if not isinstance(data, dict):
            raise errors.InvalidArgumentError(f"{where or 'the file'}: not a JSON object")
        self.given, self._where = data, where
        for name in data:
            if name not in known:
                raise errors.InvalidArgumentError(f"{self.path(name)}: unknown; there are {', '.join(known)}")

    def path(self, name: str) -> str:
        said = name if name.isidentifier() and len(name) <= _LONGEST_BARE else shortened(name)
        return f"{self._where}.{said}" if self._where else said

    def get(self, name: str, default: Any = _REQUIRED) -> Any:
        if name in self.given:
            return self.given[name]
        if default is _REQUIRED:
            raise errors.InvalidArgumentError(f"{self.path(name)}: missing")
        return default

    def number(self, name: str, least: float, most: float, default: Any = _REQUIRED, *, above: bool = False) -> float:
        value = self.get(name, default)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not least <= value <= most or (above and value == least):
            sign = "above" if above else "from"
            raise errors.InvalidArgumentError(
                f"{self.path(name)}: {shortened(str(value))} is not a number {sign} {least:g} to {most:g}"
            )
        return float(value)

    def integer(self, name: str, least: int, most: int, default: Any = _REQUIRED) -> int:
        value = self.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise errors.InvalidArgumentError(
                f"{self.path(name)}: {shortened(str(value))} is not an integer from {least} to {most}"
            )
        return value

    def size(self, name: str, least: int = 1) -> int:
        """Bytes, as a number or as people write them."""
        value = self.get(name)
        said = value if isinstance(value, str) else f"{self.number(name, 0, 2.0**60):.0f}"
        try:
            made = parse_bytes(said)
        except errors.InvalidArgumentError as error:
            raise errors.InvalidArgumentError(f"{self.path(name)}: {error}") from error
        if made < least:
            raise errors.InvalidArgumentError(f"{self.path(name)}: {shortened(str(value))}: at least {least} byte")
        return made

    def rate(self, name: str) -> int:
        """Bytes a second, likewise; no more than policies are ever shown."""
        if (made := self.size(name)) > MOST_BYTES_PER_S:
            said = f"{shortened(str(self.get(name)))}: at most {MOST_BYTES_PER_S:g} bytes a second"
            raise errors.InvalidArgumentError(f"{self.path(name)}: {said}")
        return made

    def text(self, name: str) -> str:
        value = self.get(name)
        if not is_name(value):
            raise errors.InvalidArgumentError(f"{self.path(name)}: not a text of 1 to {LONGEST_NAME} characters")
        return str(value)

    def names(self, name: str, default: tuple[str, ...]) -> tuple[str, ...]:
        value = self.get(name, default)
        if not isinstance(value, list | tuple) or not value or not all(isinstance(one, str) for one in value):
            raise errors.InvalidArgumentError(f"{self.path(name)}: not a list of at least one name")
        seen: set[str] = set()
        for one in value:
            if one in seen:
                raise errors.InvalidArgumentError(f"{self.path(name)}: {shortened(one)} is there twice")
            seen.add(one)
        return tuple(value)
