"""Schemes that tensorflow-io adds to tf.io.gfile (s3://, az://, hdfs://). It loads with TensorFlow 2.16 only.

Reads cannot be pinned to a version there, so the object's is looked at after each read.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib import metadata
from typing import Any, TypeVar

from tfquiver import errors
from tfquiver.stores import versions
from tfquiver.stores.attempts import Attempts, Transient
from tfquiver.stores.hanging_file_systems.patience import Patience
from tfquiver.stores.object_store import ObjectInfo, ReadsAtOnce

T = TypeVar("T")
_TENSORFLOW = "2.16."
_LIST_DEADLINE_S = 60.0


class GfileStore(ReadsAtOnce):
    """All schemes that gfile knows once tensorflow-io is imported. The generation is `mtime_ns-size`."""

    remote = True

    def __init__(self, tf: Any, attempts: Attempts | None = None) -> None:
        self._tf = tf
        self._gfile = tf.io.gfile
        self._patience = Patience()
        self._attempts = attempts or Attempts()

    @classmethod
    def open(cls, scheme: str) -> GfileStore | None:
        """None when TensorFlow 2.16 and tensorflow-io are not both here, or do not know the scheme."""
        if importlib.util.find_spec("tensorflow_io") is None or not _tensorflow_version().startswith(_TENSORFLOW):
            return None
        import tensorflow as tf
        import tensorflow_io  # noqa: F401 - importing it registers the file systems

        return cls(tf) if scheme in tf.io.gfile.get_registered_schemes() else None

    def list(self, pattern: str) -> list[ObjectInfo]:
        def attempt(_: float) -> list[ObjectInfo]:
            found = [(uri, self._gfile.stat(uri)) for uri in self._gfile.glob(pattern)]
            return sorted((_info(uri, stat) for uri, stat in found if not stat.is_directory), key=lambda info: info.uri)

        try:
            return self._run(pattern, _LIST_DEADLINE_S, attempt)
        except errors.NotFoundError:
            return []

    def stat(self, uri: str) -> ObjectInfo:
        return self._run(uri, _LIST_DEADLINE_S, lambda _: _info(uri, self._gfile.stat(uri)))

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        def attempt(_: float) -> bytes:
            with self._gfile.GFile(uri, "rb") as file:
                file.seek(offset)
                data: bytes = file.read(length)
            now = _info(uri, self._gfile.stat(uri))
            return versions.checked(uri, data, offset, length, generation, now)

        with versions.stale_when_gone(uri, generation):
            return self._run(uri, deadline_s, attempt)

    def close(self) -> None:
        self._attempts.stop()

    def _run(self, uri: str, deadline_s: float, call: Callable[[float], T]) -> T:
        refusals = (self._tf.errors.PermissionDeniedError, self._tf.errors.UnauthenticatedError)

        def attempt(left_s: float) -> T:
            try:
                return self._patience.call(uri, left_s, lambda: call(left_s))
            except self._tf.errors.NotFoundError as error:
                raise errors.NotFoundError(f"{uri}: no such object") from error
            except refusals as error:
                raise errors.PermissionError_(f"{uri}: the store refused: {error.message}") from error
            except self._tf.errors.OpError as error:
                raise Transient(f"{type(error).__name__}: {error.message}") from error

        return self._attempts.run(uri, deadline_s, attempt)


def _tensorflow_version() -> str:
    for package in ("tensorflow", "tensorflow-cpu"):
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return ""


def _info(uri: str, stat: Any) -> ObjectInfo:
    return ObjectInfo(uri, int(stat.length), f"{stat.mtime_nsec}-{stat.length}")
