"""Text from others, made harmless for a log or a terminal. Pure."""

from __future__ import annotations


def plain(text: object, most_characters: int = 1000) -> str:
    """`text` on one line: what ends a line, moves a cursor, or hides or reorders characters is escaped."""
    said = str(text)
    if len(said) > most_characters:
        said = f"{said[:most_characters]}..."
    return said if said.isprintable() else "".join(map(_escaped, said))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
