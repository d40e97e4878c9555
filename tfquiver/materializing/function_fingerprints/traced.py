"""A user's function as a graph: what is fingerprinted is what is run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tfquiver import errors

_patching = threading.RLock()


@contextmanager
def _no_endless_rows() -> Iterator[None]:
    """A loop over a ragged tensor fails, as over a tensor. TensorFlow gives it no `__iter__`; without AutoGraph Python
    would ask for one row after the other, and in a graph, of unknown length, there is always one more."""
    import tensorflow as tf

    def rows(ragged: Any) -> Iterator[Any]:
        if not tf.executing_eagerly():
            raise TypeError("a loop over a ragged tensor takes AutoGraph")
        return (ragged[row] for row in range(int(ragged.nrows())))

    with _patching:
        if "__iter__" in tf.RaggedTensor.__dict__:
            yield
            return
        tf.RaggedTensor.__iter__ = rows
        try:
            yield
        finally:
            del tf.RaggedTensor.__iter__


class Traced:
    """Traced as `tf.data.Dataset.map` traces it, so that its elements are those of `map`.

    Raises InvalidArgumentError: it cannot be traced.
    """

    def __init__(self, fn: Callable[..., Any], name: str, seeded: bool) -> None:
        self._fn, self.name, self.seeded = fn, name, seeded
        self._plain = True
        self._map()

    @property
    def spec(self) -> Any:
        """Of its elements."""
        return self._structured.output_structure

    @property
    def concrete(self) -> Any:
        """The ConcreteFunction, of flat tensors."""
        return self._structured.function

    def call(self, *arguments: Any) -> Any:
        """An element, of the very graph that was traced."""
        from tensorflow.python.data.util import structure

        return structure.from_tensor_list(self.spec, self.concrete(*arguments))

    def again(self) -> Traced:
        """Another trace of the same function. Raises as the first did."""
        other = Traced.__new__(Traced)
        other._fn, other.name, other.seeded, other._plain = self._fn, self.name, self.seeded, self._plain
        other._map()
        return other

    def _map(self) -> None:
        import tensorflow as tf

        try:
            if self._plain:
                try:
                    with _no_endless_rows():
                        self._structured = self._mapped(tf.autograph.experimental.do_not_convert(self._fn))
                    return
                except errors.TfquiverError:
                    raise
                except Exception:  # noqa: BLE001 - perhaps an `if` or a `for` over tensors
                    # Only what fails without AutoGraph needs it. To convert a function costs more than to trace it.
                    self._plain = False
            self._structured = self._mapped(self._fn)
        except errors.TfquiverError:
            raise
        except Exception as error:
            takes = "a record and a seed" if self.seeded else "a record"
            if "Length for attr 'output_" in str(error):  # tf.data's word for it
                raise errors.InvalidArgumentError(
                    f"fn {self.name} returns no tensors: there is nothing to keep"
                ) from error
            raise errors.InvalidArgumentError(
                f"fn {self.name} cannot be traced with {takes}: {type(error).__name__}: {error}"
            ) from error

    def _mapped(self, fn: Callable[..., Any]) -> Any:
        import tensorflow as tf

        record = tf.constant(b"")
        given = tf.data.Dataset.from_tensors((record, tf.zeros([2], tf.int64)) if self.seeded else record)
        return given.map(fn)._functions()[0]
