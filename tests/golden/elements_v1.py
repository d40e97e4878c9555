"""Elements of derived data sets, version 1; `python -m tests.golden.elements_v1` makes the records that are missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

_RECORDS = Path(__file__).parent / "elements_v1"

ELEMENTS: dict[str, Callable[[], Any]] = {
    "string": lambda: {"text": tf.constant(b"a \0 string")},
    "fixed": lambda: (
        tf.constant([[1.5, -2.25], [0.0, 3e38]]),
        {"label": tf.constant(-7, tf.int64), "odd": tf.constant([True, False, True])},
        tf.constant([1, 255], tf.uint8),
    ),
    "any": lambda: {
        "image": tf.reshape(tf.range(6), [2, 3]),
        "ragged": tf.ragged.constant([[1, 2], [], [3]], dtype=tf.int32),
        "sparse": tf.sparse.from_dense([[0, 7], [8, 0]]),
        "words": tf.constant(["a", "", "\u00fc"]),
    },
}
FORMS = {name: name for name in ELEMENTS}


def read(name: str) -> bytes:
    return (_RECORDS / name).read_bytes()


def main() -> None:
    from tfquiver.materializing.elements_as_records.element_layout import ElementLayout

    _RECORDS.mkdir(exist_ok=True)
    for name, make in ELEMENTS.items():
        path, element = _RECORDS / name, make()
        if not path.exists():
            spec = tf.nest.map_structure(tf.type_spec_from_value, element)
            path.write_bytes(ElementLayout(spec).encode(element).numpy())


if __name__ == "__main__":
    main()
