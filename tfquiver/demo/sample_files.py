"""Four small TFRecord files to try things with, `tfquiver demo --data DIR`: made of numbers, without TensorFlow, so
that who pastes the first lines of the README has something to read at once."""

from __future__ import annotations

import random
from pathlib import Path

from tfquiver import durable, errors, named_files
from tfquiver.packing.example import serialized
from tfquiver.scanning import tfrecord

FILES, RECORDS, SIDE, LABELS = 4, 500, 16, 10  # records of a file; numbers of a record


def write(directory: Path) -> list[Path]:
    """Files `train-00000-of-00004` and so on, the same ones each time; those that are there are written anew. Records
    are Examples with `label`, and `x`, 16 floats, the one of that number larger. Raises the typed error of the file
    system, which names the file."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise errors.InvalidArgumentError(f"--data={directory}: {durable.why_not_made(directory, error)}") from error
    made = [directory / f"train-{number:05}-of-{FILES:05}" for number in range(FILES)]
    noise = random.Random(0)
    for path in made:
        records = [_record(noise.randrange(LABELS), noise) for _ in range(RECORDS)]
        try:
            durable.write(path, [tfrecord.frame(record) for record in records], 0o644)
        except OSError as error:
            raise named_files.not_written(error, str(path), path) from error
    return made


def _record(label: int, noise: random.Random) -> bytes:
    return serialized({"label": [label], "x": [noise.gauss(4.0 * (at == label), 1.0) for at in range(SIDE)]})
