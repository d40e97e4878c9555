"""gs:// through google-cloud-storage: range reads pinned to the object's generation."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

import google.auth.exceptions
import requests
import requests.adapters
import urllib3.exceptions
from google.api_core import exceptions
from google.cloud import storage

from tfquiver import errors
from tfquiver.glob_patterns_and_file_trees import globs
from tfquiver.stores import versions
from tfquiver.stores.attempts import Attempts, Busy, Transient, Unreachable
from tfquiver.stores.credentials.google import EMULATOR, WHAT_TO_DO, credentials
from tfquiver.stores.listings.listing_pages import ListingPages
from tfquiver.stores.object_store import ObjectInfo, Parts, ReadsInParts

T = TypeVar("T")
_LIST_DEADLINE_S = 60.0
_CONNECT_TIMEOUT_S = 10.0
_IDLE_TIMEOUT_S = 30.0
_CONNECTIONS = 64
_PUBLIC = "https://storage.googleapis.com"
_PIECE_BYTES = 1 << 20
_TRANSIENT = (
    exceptions.ServerError,
    exceptions.TooManyRequests,
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    google.auth.exceptions.TransportError,
    ConnectionError,
    TimeoutError,
)
# A request that took too long to arrive, and what answers no request of ours: of a proxy between.
_NOT_THE_STORES = {408, *range(200, 400)}
_BUSY = (exceptions.TooManyRequests, exceptions.ServiceUnavailable)


class GcsStore(ReadsInParts):
    """Args:
    options: as access/google.py gives them; None: STORAGE_EMULATOR_HOST (anonymous then), or application default
      credentials, which renew themselves.
    """

    remote = True

    def __init__(self, options: dict[str, Any] | None = None, attempts: Attempts | None = None) -> None:
        endpoint = os.environ.get(EMULATOR) if options is None else options.get("endpoint")
        named = f"; STORAGE_EMULATOR_HOST is {endpoint}" if endpoint else ""
        self._attempts = attempts or Attempts(hint=f"check the network{named}")
        if endpoint:
            endpoint = endpoint if "://" in endpoint else f"http://{endpoint}"
        # No project is needed to read; and without one the client would look for credentials to ask for it.
        self._client = storage.Client(
            project="none",
            credentials=credentials(options, endpoint),
            client_options={"api_endpoint": endpoint or (_PUBLIC if options else None)},
        )
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

        matches = globs.compile_glob(glob).fullmatch
        found: list[ObjectInfo] = []
        page: str | None = None
        pages = ListingPages(pattern)

        def attempt(left_s: float) -> None:
            nonlocal page
            blobs = self._client.list_blobs(
                bucket,
                prefix=globs.literal_prefix(glob) or None,
                fields="items(name,size,generation),nextPageToken",
                page_token=page,  # a listing of many pages that fails goes on with the page that failed
                retry=None,
                timeout=_timeout(left_s),
            )
            for blobs_of_page in blobs.pages:
                found.extend(
                    _info(bucket, blob) for blob in blobs_of_page if not blob.name.endswith("/") and matches(blob.name)
                )
                page = blobs.next_page_token
                pages.came(page, len(found))

        self._run(pattern, _LIST_DEADLINE_S, attempt, missing=errors.NotFoundError(f"gs://{bucket}: no such bucket"))
        return sorted(found, key=lambda info: info.uri)

    def stat(self, uri: str) -> ObjectInfo:
        bucket, name = _split(uri)

        def attempt(left_s: float) -> ObjectInfo:
            blob = self._client.bucket(bucket).blob(name)
            blob.reload(retry=None, timeout=_timeout(left_s))
            return _info(bucket, blob)

        return self._run(uri, _LIST_DEADLINE_S, attempt, missing=errors.NotFoundError(f"{uri}: no such object"))

    def read_parts(self, parts: Parts, deadline_s: float, take: Callable[[bytes], None]) -> None:
        uri, generation = parts.uri, parts.generation
        bucket, name = _split(uri)
        missing: errors.TfquiverError = errors.NotFoundError(f"{uri}: no such object")
        if generation:
            missing = errors.StaleDigestError(
                f"{uri}: generation {generation} is gone: deleted or replaced since the digest was built; "
                "call tfquiver.dataset again, which lists the files anew; a .tfqd file must be built again"
            )
        come = 0

        def counted(part: bytes) -> None:
            nonlocal come
            come += 1
            take(part)

        def attempt(left_s: float) -> None:
            blob = self._client.bucket(bucket).blob(name, generation=int(generation) if generation else None)
            self._stream(blob, parts.after(come), (left_s, deadline_s), counted)

        while come < len(parts.lengths):
            before = come
            try:
                self._run(uri, deadline_s, attempt, missing)
            except errors.UnavailableError:
                if come == before:
                    raise

    def _stream(self, blob: Any, parts: Parts, seconds: tuple[float, float], take: Callable[[bytes], None]) -> None:
        """As the client's own download, which would hand it over in pieces of 8 KiB. `seconds`: until the first part,
        and until each of the others."""
        left_s, each_s = seconds
        offset, length, give_up_at = parts.offset, parts.length_bytes, time.monotonic() + left_s
        with self._client._http.request(
            "GET",
            blob._get_download_url(self._client),
            # gzip: an object stored with that Content-Encoding must come as it is stored, or ranges mean nothing.
            headers={"range": f"bytes={offset}-{offset + length - 1}", "accept-encoding": "gzip"},
            stream=True,
            timeout=_timeout(left_s),
        ) as response:
            if response.status_code not in (requests.codes.ok, requests.codes.partial_content):
                raise exceptions.from_http_response(response)  # type: ignore[no-untyped-call]
            _check_range(response, offset, length)
            # Whatever has come, where urllib3 has it (since 2.2); else pieces that are waited for.
            read = getattr(response.raw, "read1", response.raw.read)
            for number, part in enumerate(parts.lengths, 1):
                pieces, missing = [], part
                while missing and (piece := read(min(missing, _PIECE_BYTES), decode_content=False)):
                    if time.monotonic() > give_up_at:
                        raise Transient("the body did not come in time")
                    pieces.append(piece)
                    missing -= len(piece)
                data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
                versions.check_length(data, offset, part)
                # Before the last is taken: whatever is wrong after that could not be mended.
                if number == len(parts.lengths) and read(1, decode_content=False):
                    raise Transient("more bytes came than were asked for")
                offset += part
                give_up_at = time.monotonic() + each_s
                take(data)

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
            except _TRANSIENT as error:
                kind = Unreachable if _is_unreachable(error) else Busy if isinstance(error, _BUSY) else Transient
                raise kind(f"{type(error).__name__}: {error}") from error
            except google.auth.exceptions.GoogleAuthError as error:
                if error.retryable:
                    raise Transient(f"{type(error).__name__}: {error}") from error
                raise errors.UnauthenticatedError(
                    f"{what}: the credentials are not taken: {error}; {WHAT_TO_DO}"
                ) from error
            except exceptions.Unauthorized as error:
                raise errors.UnauthenticatedError(
                    f"{what}: the store refused the credentials: {error}; {WHAT_TO_DO}"
                ) from error
            except exceptions.Forbidden as error:
                raise errors.PermissionError_(
                    f"{what}: the store refused: {error}; the account needs storage.objects.list and .get there"
                ) from error
            except exceptions.GoogleAPICallError as error:
                if error.code in _NOT_THE_STORES:
                    raise Transient(f"{type(error).__name__}: {error}") from error
                raise errors.InvalidArgumentError(f"{what}: {error}") from error

        return self._attempts.run(what, deadline_s, attempt)


def _check_range(response: requests.Response, offset: int, length: int) -> None:
    """Raises Transient where what comes is, by its headers, something else than these bytes of the object: as proxies
    give that do not know of ranges, or keep one for another."""
    coming = response.headers.get("content-length", str(length))
    if coming != str(length):
        raise Transient(f"{coming} bytes come where {length} were asked for at offset {offset}")
    if response.status_code == requests.codes.partial_content:
        span = response.headers.get("content-range", "")
        if span and span.partition("/")[0].split() != ["bytes", f"{offset}-{offset + length - 1}"]:
            raise Transient(f"{span} comes where {length} bytes at offset {offset} were asked for")
    elif offset:
        raise Transient(f"the whole object comes where {length} bytes at offset {offset} were asked for")


def _is_unreachable(error: BaseException) -> bool:
    """Whether not even a connection came about."""
    if not isinstance(error, requests.ConnectionError):
        return False
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, requests.ConnectTimeout) or isinstance(reason, urllib3.exceptions.NewConnectionError)


def _timeout(left_s: float) -> tuple[float, float]:
    return min(left_s, _CONNECT_TIMEOUT_S), min(left_s, _IDLE_TIMEOUT_S)


def _split(uri: str) -> tuple[str, str]:
    match = re.fullmatch(r"gs://([^/*?\[\]]+)/(.+)", uri, re.DOTALL)
    if not match:
        raise errors.InvalidArgumentError(f"{uri}: not of the form gs://bucket/name (no wildcards in the bucket)")
    return match[1], match[2]


def _info(bucket: str, blob: Any) -> ObjectInfo:
    return ObjectInfo(f"gs://{bucket}/{blob.name}", int(blob.size or 0), str(blob.generation or ""))
