"""Other schemes (s3://, az://, ...) through whichever fsspec package is installed.

fsspec cannot pin a read to a version, so the object's version is looked at after each read: when it is still the one
asked for, so were the bytes.
"""

from __future__ import annotations

import errno
import functools
import inspect
import os
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import fsspec
import fsspec.asyn
import fsspec.config
from fsspec.exceptions import FSTimeoutError

from tfquiver import errors
from tfquiver.stores import http_ranges, s3_ranges, versions
from tfquiver.stores.attempts import Attempts, Transient, Unreachable
from tfquiver.stores.hanging_file_systems.patience import Patience
from tfquiver.stores.listings import s3_listing, web_index, web_listing
from tfquiver.stores.listings.listing_pages import ListingPages
from tfquiver.stores.object_store import THERE_ARE, ObjectInfo, ReadsAtOnce, scheme_of

T = TypeVar("T")
_S3 = ("s3", "s3a")
# Where fsspec would take more into memory than was asked for.
_RANGES = dict.fromkeys(_S3, s3_ranges.range_of) | dict.fromkeys(web_listing.SCHEMES, http_ranges.range_of)
_LIST_DEADLINE_S = 60.0
_NO_CONNECTION = ("ClientConnectorError", "ClientConnectorDNSError", "ServiceRequestError")  # of aiohttp and azure-core
_VERSION_KEYS = ("generation", "ETag", "etag", "version_id", "VersionId", "mtime", "LastModified", "last_modified")


class FsspecStore(ReadsAtOnce):
    """One file system of one scheme; configured through fsspec's own configuration and the scheme's environment."""

    remote = True

    def __init__(self, fs: Any, attempts: Attempts | None = None) -> None:
        self._fs = fs
        self._patience = Patience()
        self._attempts = attempts or Attempts()

    @classmethod
    def open(cls, scheme: str, options: dict[str, Any] | None = None) -> FsspecStore | None:
        """None when fsspec has nothing for the scheme, or what it has is not installed.

        `options`: arguments of the file system (stores/credentials/resolved.py); None: its library looks for itself.

        Raises InvalidArgumentError: it has to be told something else, or what it needs is not on this machine.
        """
        try:
            made_of = fsspec.get_filesystem_class(scheme)
        except (ImportError, ValueError):
            return None
        options = dict(options or {})
        if missing := _missing(made_of, scheme, options):
            variables = ", ".join(f"FSSPEC_{scheme.upper()}_{name.upper()}" for name in missing)
            raise errors.InvalidArgumentError(
                f"no store for {scheme}:// here: {made_of.__name__} of fsspec has to be told {', '.join(missing)} "
                f"({variables}); {THERE_ARE}"
            )
        if scheme in _S3:
            # Trying again is done here, where the deadline is known.
            retries = {"retries": {"max_attempts": 0, "mode": "standard"}}
            options["config_kwargs"] = retries | dict(options.get("config_kwargs") or {})
        if scheme in web_listing.SCHEMES:
            given = options.get("client_kwargs") or fsspec.config.conf.get(scheme, {}).get("client_kwargs") or {}
            if isinstance(given, Mapping):
                options["client_kwargs"] = {**web_index.waits(_LIST_DEADLINE_S), **given}
        try:
            fs = fsspec.filesystem(scheme, use_listings_cache=False, skip_instance_cache=True, **options)
        except (OSError, ImportError, TypeError, ValueError) as error:  # a library that is not there, for one
            why = (str(error).splitlines() or [""])[0]
            raise errors.InvalidArgumentError(
                f"no store for {scheme}:// here: {type(error).__name__}: {why}; {THERE_ARE}"
            ) from error
        if scheme in _S3:
            fs.retries = 1
        endpoint = options.get("endpoint_url") or os.environ.get("AWS_ENDPOINT_URL")
        hint = f"check the network and the endpoint{f' ({endpoint})' if endpoint else ''}"
        return cls(fs, Attempts(hint=hint))

    def list(self, pattern: str) -> list[ObjectInfo]:
        scheme, path = scheme_of(pattern), self._fs._strip_protocol(pattern)
        in_pages: Callable[..., Any] | None = None
        if scheme in web_listing.SCHEMES:
            in_pages = web_index.objects
        elif scheme in _S3 and s3_listing.can_list(self._fs, path):
            in_pages = s3_listing.objects

        def attempt(left_s: float) -> list[ObjectInfo]:
            found = self._call("glob", left_s, pattern, detail=True)
            return [_info(scheme, path, info) for path, info in found.items() if info.get("type") == "file"]

        try:
            if in_pages:
                pages, run = ListingPages(pattern), functools.partial(self._run, pattern, _LIST_DEADLINE_S)
                found = [_info(scheme, info["name"], info) for info in in_pages(self._fs, path, pages, run)]
            else:
                found = self._run(pattern, _LIST_DEADLINE_S, attempt)
            return sorted(found, key=lambda info: info.uri)
        except errors.NotFoundError as error:
            raise errors.NotFoundError(f"{'/'.join(pattern.split('/')[:3])}: no such bucket") from error

    def stat(self, uri: str) -> ObjectInfo:
        return self._run(uri, _LIST_DEADLINE_S, lambda left_s: self._stat(uri, left_s))

    def read(self, uri: str, offset: int, length: int, generation: str, deadline_s: float) -> bytes:
        def attempt(left_s: float) -> bytes:
            give_up_at = time.monotonic() + left_s
            data = self._range(uri, offset, length, left_s) if length else b""
            if not generation and len(data) == length:
                return data
            now = self._stat(uri, max(give_up_at - time.monotonic(), 0.001))
            return versions.checked(uri, data, offset, length, generation, now)

        with versions.stale_when_gone(uri, generation):
            return self._run(uri, deadline_s, attempt)

    def close(self) -> None:
        self._attempts.stop()
        # aiohttp-backed file systems keep a session that wants to be closed on their loop.
        for name in ("_s3", "_session"):
            close_session, session = getattr(self._fs, "close_session", None), getattr(self._fs, name, None)
            if close_session and session is not None:
                close_session(self._fs.loop, session)
                setattr(self._fs, name, None)

    def _stat(self, uri: str, left_s: float) -> ObjectInfo:
        if scheme_of(uri) in web_listing.SCHEMES:
            path = self._fs._strip_protocol(uri)
            info = fsspec.asyn.sync(self._fs.loop, web_listing.info, self._fs, path, timeout=left_s)
        else:
            info = self._call("info", left_s, uri)
        if info.get("type") != "file":
            raise errors.InvalidArgumentError(f"{uri}: a directory; name its files, for example {uri.rstrip('/')}/*")
        return _info(scheme_of(uri), info["name"], info)

    def _range(self, uri: str, offset: int, length: int, left_s: float) -> bytes:
        bounded = _RANGES.get(scheme_of(uri)) if self._fs.async_impl else None
        if bounded is None:
            found: bytes = self._call("cat_file", left_s, uri, start=offset, end=offset + length)
        else:
            path, loop, end = self._fs._strip_protocol(uri), self._fs.loop, offset + length
            found = fsspec.asyn.sync(loop, bounded, self._fs, path, offset, end, timeout=left_s)
        return found

    def _call(self, method: str, left_s: float, uri: str, **arguments: Any) -> Any:
        path = self._fs._strip_protocol(uri)
        if self._fs.async_impl:
            call = getattr(self._fs, f"_{method}")
            return fsspec.asyn.sync(self._fs.loop, call, path, timeout=left_s, **arguments)
        return self._patience.call(uri, left_s, lambda: getattr(self._fs, method)(path, **arguments))

    def _run(self, uri: str, deadline_s: float, call: Callable[[float], T]) -> T:
        def attempt(left_s: float) -> T:
            try:
                return call(left_s)
            except FileNotFoundError as error:
                raise errors.NotFoundError(f"{uri}: no such object") from error
            except (errors.TfquiverError, Transient):
                raise
            except Exception as error:
                # Back ends raise their own libraries' types (botocore, azure, aiohttp, ...).
                raise _meaning(uri, error) from error

        return self._attempts.run(uri, deadline_s, attempt)


def _missing(made_of: Any, scheme: str, options: Mapping[str, Any]) -> list[str]:
    """Arguments without which it cannot be made, and that nobody has given."""
    known = {**fsspec.config.conf.get(scheme, {}), **options}
    return [
        name
        for name, one in list(inspect.signature(made_of.__init__).parameters.items())[1:]  # but for `self`
        if one.kind is one.POSITIONAL_OR_KEYWORD and one.default is one.empty and name not in known
    ]


def _meaning(uri: str, error: Exception) -> Exception:
    if scheme_of(uri) in _S3:
        from tfquiver.stores import s3_errors

        if known := s3_errors.classify(uri, error):
            return known
    if isinstance(error, PermissionError):
        return errors.PermissionError_(f"{uri}: the store refused: {error}")
    what = f"{type(error).__name__}: {error}"
    if isinstance(error, FSTimeoutError):
        return Transient(what)
    if isinstance(error, ConnectionRefusedError | socket.gaierror) or type(error).__name__ in _NO_CONNECTION:
        return Unreachable(what)
    if isinstance(error, OSError) and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return Unreachable(what)
    if isinstance(error, TypeError | ValueError | ImportError | AttributeError):  # arguments, not the network
        return errors.InvalidArgumentError(f"{uri}: {what}; check how this kind of store is configured")
    return Transient(what)


def _info(scheme: str, path: str, info: dict[str, Any]) -> ObjectInfo:
    version = next((str(info[key]) for key in _VERSION_KEYS if info.get(key)), "")
    uri = path if "://" in path else f"{scheme}://{path}"
    return ObjectInfo(uri, int(info["size"] or 0), version.strip('"'))
