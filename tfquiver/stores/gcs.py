"""gs:// through google-cloud-storage: range reads pinned to the object's generation."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

import google.auth.exceptions
import requests
import requests.adapters
import urllib3.exceptions
from google.api_core import exceptions, retry
from google.cloud import storage

from tfquiver import errors
from tfquiver.stores import ObjectInfo, globs
from tfquiver.stores.attempts import Attempts, Transient

T = TypeVar("T")
_LIST_DEADLINE_S = 60.0
_CONNECT_TIMEOUT_S = 10.0
_IDLE_TIMEOUT_S = 30.0
_CONNECTIONS = 64
_TRANSIENT = (
    exceptions.ServerError,
    exceptions.TooManyRequests,
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    google.auth.exceptions.TransportError,
    ConnectionError,
    TimeoutError,
)


class GcsStore:
    """STORAGE_EMULATOR_HOST is honoured (anonymous credentials then); otherwise application default credentials."""

    remote = True

    def __init__(self, attempts: Attempts | None = None) -> None:
        self._attempts = attempts or Attempts()
        try:
            self._client = storage.Client()
        except google.auth.exceptions.DefaultCredentialsError as error:
            raise errors.UnauthenticatedError(
                "gs://: no Google credentials: run `gcloud auth application-default login`, or set "
                "GOOGLE_APPLICATION_CREDENTIALS to the path of a service account's key"
            ) from error
        except OSError as error:  # no project known; only bucket creation would need it
            if "project" not in str(error).lower():
                raise
            self._client = storage.Client(project="none")
        # Else the client asks for every bucket's metadata, for traces, in threads that outlive close().
        self._client._bucket_metadata_cache = None
        adapter = requests.adapters.HTTPAdapter(pool_connections=_CONNECTIONS, pool_maxsize=_CONNECTIONS)
        for scheme in ("http://", "https://"):
            self._client._http.mount(scheme, adapter)

    def list(self, pattern: str) -> list[ObjectInfo]:
        bucket, glob = _split(pattern)
        if not globs.is_glob(glob):
            try:
                return [self.stat(pattern)]
            except errors.NotFoundError:
                return []

        def attempt(left_s: float) -> list[ObjectInfo]:
            blobs = self._client.list_blobs(
                bucket,
                prefix=globs.literal_prefix(glob) or None,
                fields="items(name,size,generation),nextPageToken",
                retry=retry.Retry(retry.if_exception_type(*_TRANSIENT), initial=0.1, maximum=5.0, timeout=left_s),
                timeout=_timeout(left_s),
            )
            matches = globs.compile_glob(glob).fullmatch
            return [_info(bucket, blob) for blob in blobs if not blob.name.endswith("/") and matches(blob.name)]

        found = self._run(pattern, _LIST_DEADLINE_S, attempt, missing=errors.NotFoundError(f"gs://{bucket}: no bucket"))
        return sorted(found, key=lambda info: info.uri)

    def stat(self, uri: str) -> ObjectInfo:
        bucket, name = _split(uri)

        def attempt(left_s: float) -> ObjectInfo:
            blob = self._client.bucket(bucket).blob(name)
            blob.reload(retry=None, timeout=_timeout(left_s))
            return _info(bucket, blob)

        return self._run(uri, _LIST_DEADLINE_S, attempt, missing=errors.NotFoundError(f"{uri}: no such object"))

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        bucket, name = _split(uri)
        missing: errors.TfquiverError = errors.NotFoundError(f"{uri}: no such object")
        if generation:
            missing = errors.StaleDigestError(
                f"{uri}: generation {generation} is gone: deleted or replaced since the digest was built; "
                "build the digest again"
            )
        if not length:
            return b""

        def attempt(left_s: float) -> bytes:
            blob = self._client.bucket(bucket).blob(name, generation=int(generation) if generation else None)
            sink = _Sink(length, time.monotonic() + left_s)
            # Raw: an object stored with Content-Encoding gzip must come as it is stored, or ranges mean nothing.
            blob.download_to_file(
                sink,
                start=offset,
                end=offset + length - 1,
                raw_download=True,
                checksum=None,
                retry=None,
                timeout=_timeout(left_s),
            )
            data = sink.getvalue()
            if len(data) != length:
                raise Transient(f"{len(data)} bytes came where {length} were asked for at offset {offset}")
            return data

        return self._run(uri, deadline_s, attempt, missing)

    def close(self) -> None:
        self._attempts.stop()
        self._client.close()

    def _run(self, what: str, deadline_s: float, call: Callable[[float], T], missing: errors.TfquiverError) -> T:
        def attempt(left_s: float) -> T:
            try:
                return call(left_s)
            except (exceptions.NotFound, exceptions.PreconditionFailed) as error:
                raise missing from error
            except exceptions.RequestRangeNotSatisfiable as error:
                raise errors.StaleDigestError(f"{what}: the object is shorter than the digest says") from error
            except exceptions.RetryError as error:
                raise Transient(str(error.cause or error)) from error
            except _TRANSIENT as error:
                raise Transient(f"{type(error).__name__}: {error}") from error
            except google.auth.exceptions.GoogleAuthError as error:
                if error.retryable:
                    raise Transient(f"{type(error).__name__}: {error}") from error
                raise errors.PermissionError_(f"{what}: the store refused: {error}") from error
            except (exceptions.Forbidden, exceptions.Unauthorized) as error:
                raise errors.PermissionError_(f"{what}: the store refused: {error}") from error
            except exceptions.GoogleAPICallError as error:
                raise errors.InvalidArgumentError(f"{what}: {error}") from error

        return self._attempts.run(what, deadline_s, attempt)


class _Sink(io.BytesIO):
    """Takes a response body: not more of it than was asked for, and not after the deadline."""

    def __init__(self, length: int, give_up_at: float) -> None:
        super().__init__()
        self._room = length
        self._give_up_at = give_up_at

    def write(self, data: Any) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise Transient("more bytes came than were asked for")
        if time.monotonic() > self._give_up_at:
            raise Transient("the body did not come in time")
        return super().write(data)


def _timeout(left_s: float) -> tuple[float, float]:
    return min(left_s, _CONNECT_TIMEOUT_S), min(left_s, _IDLE_TIMEOUT_S)


def _split(uri: str) -> tuple[str, str]:
    match = re.fullmatch(r"gs://([^/*?\[\]]+)/(.+)", uri, re.DOTALL)
    if not match:
        raise errors.InvalidArgumentError(f"{uri}: not of the form gs://bucket/name (no wildcards in the bucket)")
    return match[1], match[2]


def _info(bucket: str, blob: Any) -> ObjectInfo:
    return ObjectInfo(f"gs://{bucket}/{blob.name}", int(blob.size or 0), str(blob.generation or ""))
