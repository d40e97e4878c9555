"""Text from others, made harmless for a log or a terminal. Pure."""

from __future__ import annotations

import shlex

_SAID_CHARACTERS = 60


def plain(text: object, most_characters: int = 1000) -> str:
    """`text` on one line: what ends a line, moves a cursor, or hides or reorders characters is escaped."""
    said = str(text)
    if len(said) > most_characters:
        said = f"{said[:most_characters]}..."
    return said if said.isprintable() else "".join(map(_escaped, said))


def for_shell(word: object) -> str:
    """A word of a command that is to be pasted: `plain`, in quotes where a shell would make something else of it."""
    return shlex.quote(plain(word))


def of_error(error: BaseException, most_characters: int = 1000) -> str:
    """Its message, `plain`; then its notes, line by line, indented, so that none passes for the printer's."""
    notes = "\n".join(getattr(error, "__notes__", ())).splitlines()
    return "\n    ".join(plain(line, most_characters) for line in [str(error), *filter(None, notes)])


def of_others_error(error: BaseException, most_characters: int = 200) -> str:
    """What it is and says, `plain`, where code of others raised it: that may say very much, or not be able to."""
    try:
        said = plain(error, most_characters)
    except BaseException:  # noqa: BLE001  Of theirs, whatever it is: as what they raised.
        said = "(no text)"
    return f"{type(error).__name__}: {said}"


def shortened(text: str) -> str:
    """What a person wrote, in quotes; its beginning when it is long."""
    return repr(text if len(text) <= _SAID_CHARACTERS else text[:_SAID_CHARACTERS] + "...")


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
