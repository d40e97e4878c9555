"""What a trainer is told where its stream fails: one typed error, which names stream and job and says what to do.

TensorFlow passes on an error of a Python generator as text: its message, the frames that it went through, its message
again. So what fails inside is told by an error that is made at the edge, without what led there.
"""

from __future__ import annotations

import re
import weakref
from typing import Any

from tfquiver import errors

_MOST = 1000  # characters of what the pipeline says
_WHERE = re.compile(r"\{\{function_node [^}]*\}\} ?")
_DO = {
    errors.UnavailableError: "`tfquiver doctor` with its cache directory says what is wrong; then run this trainer "
    "again with first_epoch= and first_batch=",
    errors.ProtocolError: "node and trainer are of two versions of tfquiver: end the node (`tfquiver stop`), the next "
    "trainer starts one of its own version",
    errors.NeverFitsError: "",  # it says so itself
    errors.ResourceExhaustedError: "give streams smaller windows (window_bytes=), or end trainers that are not needed",
}


class Troubles:
    """Of one data set of a trainer; `job` empty: it has no name."""

    def __init__(self, stream: str, job: str) -> None:
        self._name = f"stream {stream!r}" + (f" of job {job!r}" if job else "")
        self._stream = f"stream {stream!r}"
        self._last: errors.TfquiverError | None = None

    def of(self, error: Exception, epoch: int, batch: int) -> errors.TfquiverError:
        """The error to raise in its place."""
        if isinstance(error, errors.TfquiverError):
            said = str(error).removeprefix(f"{self._stream}: ")
            do = next((what for kind, what in _DO.items() if isinstance(error, kind)), "")
            kind: type[errors.TfquiverError] = type(error)
        else:
            said, kind = self._of_pipeline(error), self._kind(error)
            do = "mend the pipeline that stands before one_stream: alone it fails alike"
        where = f"{self._name}, epoch {epoch}, batch {batch}"
        self._last = kind(f"{where}: {said}{'; ' if do else ''}{do}")
        return self._last

    def typed(self, error: Exception) -> Exception:
        """Of what an iterator has raised: the error that `of` has made, where that is what it tells of."""
        from tfquiver.tensorflow_client.tf_errors import both

        made = self._last
        return both(made) if made is not None and str(made) in str(error) else error

    def told_by(self, iterator: Any) -> Any:
        """The iterator, which raises them."""
        import tensorflow as tf

        next_of, itself = type(iterator)._next_internal, weakref.ref(iterator)  # no circle: it ends when it is dropped

        def next_() -> Any:
            try:
                return next_of(itself())
            except tf.errors.OutOfRangeError:
                raise
            except tf.errors.OpError as error:
                if (typed := self.typed(error)) is error:
                    raise
                raise typed from None

        iterator._next_internal = next_
        return iterator

    @staticmethod
    def _of_pipeline(error: Exception) -> str:
        """The first line of it, without the names of TensorFlow's functions."""
        line = next(iter(str(error).splitlines()), "")
        said = _WHERE.sub("", line)[:_MOST].strip()
        return f"its pipeline fails: {type(error).__name__}: {said}"

    @staticmethod
    def _kind(error: Exception) -> type[errors.TfquiverError]:
        code = getattr(error, "error_code", None)
        kind = type(errors.from_number(code, "")) if isinstance(code, int) else errors.TfquiverError
        # OUT_OF_RANGE ends loops over data.
        return errors.TfquiverError if issubclass(kind, errors.NeverFitsError) else kind
