"""Each class as often as any other, however many records it has; a file's records are of one class. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement.patterns import (
    check_all_used,
    first_matches,
)
from tfquiver.service.coordinator.sampling_by_weights_or_with_replacement.weighted import (
    MOST_EPOCH_SHARE,
    drawn_by_weight,
)
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.chance import Chance
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.interface import Draws, Population
from tfquiver.service.coordinator.sampling_schemes_drawing_epochs.numbers import number


class ClassBalanced:
    """Draws with replacement; a record's weight is one by the number of records that its class has. So an epoch has
    about as many records as the data set, times `epoch_share`, and of each class the same number on the average."""

    def __init__(self, classes: Mapping[str, Sequence[str]], epoch_share: float = 1.0) -> None:
        """`classes`: the patterns of each class's files; each file must match one, and the first that it matches
        counts."""
        if not isinstance(classes, Mapping) or not classes:
            raise ValueError("classes: must be a mapping from class to patterns of files")
        self._names = list(classes)
        self._patterns, self._class_of = list[str](), list[int]()
        for place, (name, patterns) in enumerate(classes.items()):
            listed = [patterns] if isinstance(patterns, str) else patterns
            if (
                not isinstance(listed, Sequence)
                or not listed
                or not all(isinstance(one, str) and one for one in listed)
            ):
                raise ValueError(f"classes[{name!r}]: must be a pattern of files, or a list of them")
            self._patterns += listed
            self._class_of += [place] * len(listed)
        self._epoch_share = number("epoch_share", epoch_share, 1e-6, MOST_EPOCH_SHARE)

    def draw(self, population: Population, epoch: int, chance: Chance) -> Draws:
        found = first_matches(self._patterns, population.files)
        if (found < 0).any():
            raise ValueError(f"classes: {population.files[int(np.argmin(found))]} is of none")
        check_all_used(self._patterns, found, "classes")
        class_of = np.array(self._class_of)[found][population.file_of]
        records = np.bincount(class_of, population.records, len(self._names))
        if not records.all():
            raise ValueError(f"classes[{self._names[int(np.argmin(records))]!r}]: its files have no records")
        return Draws(drawn_by_weight(population, 1.0 / records[class_of], self._epoch_share, chance))
