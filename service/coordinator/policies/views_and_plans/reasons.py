"""Reasons of a plan, written when somebody asks: a plan for thousands of jobs is made often, read for a few. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any


class Reasons(Mapping[str, str]):
    """By data set or job. Those of `a | b` that both have are b's."""

    def __init__(self, *layers: Sentences) -> None:
        self._layers = layers  # the one that counts first

    def __or__(self, later: Reasons | Mapping[str, str]) -> Reasons:
        first = later._layers if isinstance(later, Reasons) else (Sentences([*later], [[*later.values()]], str),)
        return Reasons(*first, *self._layers)

    def __getitem__(self, name: str) -> str:
        for layer in self._layers:
            if name in layer.places:
                return layer.at(layer.places[name])
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for layer in self._layers for name in layer.places))

    def __len__(self) -> int:
        return len(set().union(*(layer.places for layer in self._layers)))


class Sentences:
    """What sentences are made of, and what makes them."""

    def __init__(self, names: Sequence[str], columns: Sequence[Sequence[Any]], sentence: Callable[..., str]) -> None:
        """`columns`: as long as `names`; their values at one place are what `sentence` is called with."""
        self._names, self._columns, self._sentence = names, columns, sentence

    @cached_property
    def places(self) -> Mapping[str, int]:
        return {name: place for place, name in enumerate(self._names)}

    def at(self, place: int) -> str:
        return self._sentence(*(column[place] for column in self._columns))
