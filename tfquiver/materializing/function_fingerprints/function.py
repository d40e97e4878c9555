"""The user's function: traced once, known by a fingerprint of what was traced, and that applied to records."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfquiver import errors
from tfquiver.materializing.elements_as_records.element_layout import ElementLayout
from tfquiver.materializing.function_fingerprints.fingerprint import RANDOM_HINT, fingerprint
from tfquiver.materializing.function_fingerprints.traced import Traced

_AT_ONCE_BYTES = 16 << 20  # of what is made: the records that give so much are computed together
_FIRST_RECORDS, _MOST_RECORDS = 16, 4096
_OF_FUNCTION = "Error in user-defined function"
_PLACES = re.compile(r"\{\{function_node [^}]*\}\} ?| ?\[Op:[^]]*\]")


class Function:
    """Args:
    fn: record (string scalar) -> element; with `seeded`, (record, seed int64 [2]) -> element.
    version: what the user says beside what the graph says.

    Raises InvalidArgumentError: it cannot be traced, or what it computes cannot be told; names why.
    """

    def __init__(self, fn: Callable[..., Any], version: str, seeded: bool) -> None:
        self.name = getattr(fn, "__name__", type(fn).__name__)
        self._traced = Traced(fn, self.name, seeded)
        self.layout = ElementLayout(self._traced.spec)
        self.fingerprint = fingerprint(self._traced, version)
        # Whoever comes later traces it, too: it must be the same then.
        if self.fingerprint != fingerprint(self._traced.again(), version):
            raise errors.InvalidArgumentError(
                f"fn {self.name} is another each time it is traced: something of Python's in it (random, numpy.random, "
                f"a clock, a counter) becomes a constant of the graph; {RANDOM_HINT}"
            )
        self._applied: Any = None

    def apply(self, records: Sequence[bytes], seed: int) -> Iterator[bytes]:
        """What each record has become, in order, made some records at a time. `seed`: of all of them together.

        Thread-safe. Raises what TensorFlow raises, as InvalidArgumentError: names the first record that it is of.
        """
        import tensorflow as tf

        if self._applied is None:  # not needed where all is made already; twice does no harm
            self._applied = self._all()
        first, many = 0, max(_FIRST_RECORDS, 2 * _threads())
        while first < len(records):
            some = records[first : first + many]
            try:
                made = self._made(some, seed, first)
            except tf.errors.OpError as error:
                raise self._failed(some, seed, first, error) from error
            found: list[bytes] = made.numpy().tolist()
            del made
            size_bytes = sum(map(len, found))
            first += len(found)
            yield from found
            most = _AT_ONCE_BYTES * len(found) // max(1, size_bytes)
            many = max(1, min(2 * many, most, _MOST_RECORDS))

    def _made(self, records: Sequence[bytes], seed: int, first: int) -> Any:
        import tensorflow as tf

        some = tf.constant(list(records), tf.string)
        return self._applied(some, tf.constant(seed, tf.int64), tf.constant(first, tf.int64))

    def _failed(self, records: Sequence[bytes], seed: int, first: int, error: Any) -> errors.InvalidArgumentError:
        """Some of these records failed together: TensorFlow does not say which."""
        import tensorflow as tf

        while len(records) > 1:
            half = len(records) // 2
            try:
                self._made(records[:half], seed, first)
                records, first = records[half:], first + half
            except tf.errors.OpError as of_half:
                records, error = records[:half], of_half
        try:
            self._made(records, seed, first)
        except tf.errors.OpError as alone:
            return errors.InvalidArgumentError(f"record {first} of it: fn {self.name}: {_said(alone.message)}")
        return errors.InvalidArgumentError(f"fn {self.name}: {_said(error.message)}")  # only of several together

    def _all(self) -> Any:
        """Records, seed and the first one's number -> what they become."""
        import tensorflow as tf

        traced, layout, many = self._traced, self.layout, _threads()

        # TensorFlow would convert these to what they are.
        @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
        def encoded(*parts: Any) -> Any:
            return layout.encode(traced.call(*parts))

        def all_of(records: Any, seed: Any, first: Any) -> Any:
            @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
            def seeded(index: Any, record: Any) -> Any:
                return record, tf.stack([seed, index])

            data = tf.data.Dataset.from_tensor_slices(records)
            if traced.seeded:
                data = data.enumerate(first).map(seeded)
            data = data.map(encoded, num_parallel_calls=many, deterministic=True)
            return data.batch(tf.size(records, tf.int64)).get_single_element()

        number = tf.TensorSpec([], tf.int64)
        return tf.function(all_of, autograph=False).get_concrete_function(
            tf.TensorSpec([None], tf.string), number, number
        )


def _said(message: str) -> str:
    """What an op says, without TensorFlow's account of where it stands, which the error that led here has."""
    lines = [line for line in message.splitlines() if line.strip() and not line.startswith("\t")]
    of_function = next((line for line in lines if line.startswith(_OF_FUNCTION)), "")
    said = of_function.partition("iterator: ")[2].partition(": ")[2] or (lines or [""])[-1]
    return _PLACES.sub("", said)


def _threads() -> int:
    return os.cpu_count() or 1
