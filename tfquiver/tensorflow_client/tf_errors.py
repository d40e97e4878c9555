"""Our errors that are TensorFlow's too: who writes `except tf.errors.NotFoundError` catches ours.

The functions of the API are decorated with `raised_as_both`. It does not import TensorFlow: who has not imported it
cannot name its classes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tfquiver import errors


@contextmanager
def raised_as_both() -> Iterator[None]:
    """In it, and as a decorator: a TfquiverError leaves as one that is also the `tf.errors` class of its code."""
    try:
        yield
    except errors.TfquiverError as error:
        if "tensorflow" not in sys.modules:
            raise
        raise both(error).with_traceback(error.__traceback__) from error.__cause__


def both(error: errors.TfquiverError) -> errors.TfquiverError:
    """`error`, of a class that is a subclass of its own and of TensorFlow's. Imports TensorFlow."""
    import tensorflow as tf

    return error if isinstance(error, tf.errors.OpError) else _made(type(error), str(error))


def _made(ours: type[errors.TfquiverError], message: str) -> errors.TfquiverError:
    if ours not in _classes:
        _classes[ours] = _class_of(ours)
    made: errors.TfquiverError = _classes[ours](None, None, message)
    return made


_classes: dict[type[errors.TfquiverError], Any] = {}


def _class_of(ours: type[errors.TfquiverError]) -> Any:
    import tensorflow as tf

    # By the class at the top of the tree: a NeverFitsError has the code OUT_OF_RANGE, which ends loops over data.
    kinds = [kind for kind in ours.__mro__ if issubclass(kind, errors.TfquiverError)]
    code = kinds[max(len(kinds) - 2, 0)].code
    theirs = getattr(tf.errors, "".join(word.title() for word in code.name.split("_")) + "Error")

    # TensorFlow's own arguments: by them autograph makes an error again, to add where in a user's function it was.
    def init(self: Any, node_def: Any, op: Any, message: str, *more: Any) -> None:
        theirs.__init__(self, node_def, op, message, *more)
        self.args = (message,)  # which its repr shows

    body = {
        "__init__": init,
        "__str__": lambda self: self.message,
        "__reduce__": lambda self: (_made, (ours, self.message)),
        "__doc__": f"tfquiver.errors.{ours.__name__} and tf.errors.{theirs.__name__}.",
        "__module__": ours.__module__,
        "__qualname__": ours.__qualname__,
    }
    return type(ours.__name__, (ours, theirs), body)
