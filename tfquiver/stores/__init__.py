"""Object stores: where the user's TFRecord files are. One small interface; which one serves a URI is decided here.

Called by `scanning` and by nodes; never by the coordinator. Reads and lists only, and never caches: a range comes back
as the version that was asked for, or an error does.
"""

from __future__ import annotations

import threading
from typing import Any

from tfquiver import errors
from tfquiver.stores.credentials.resolved import Access
from tfquiver.stores.object_store import THERE_ARE
from tfquiver.stores.object_store import CountedStore as CountedStore
from tfquiver.stores.object_store import ObjectInfo as ObjectInfo
from tfquiver.stores.object_store import ObjectStore as ObjectStore
from tfquiver.stores.object_store import scheme_of as scheme_of

_lock = threading.Lock()
_stores: dict[str, ObjectStore] = {}
_WRITTEN_SO = {"gcs": "gs", "s3n": "s3"}  # as other programs call it, and which is meant


def for_uri(uri: str) -> ObjectStore:
    """The store that serves `uri`, reached as this process's environment says; one per scheme and process.

    Raises InvalidArgumentError that says which extra to install when none does, UnauthenticatedError.
    """
    scheme = scheme_of(uri)
    with _lock:
        if scheme not in _stores:
            _stores[scheme] = _open(scheme, None)
        return _stores[scheme]


def close_all() -> None:
    """Closes every store that `for_uri` opened; the next call opens them again."""
    with _lock:
        stores = list(_stores.values())
        _stores.clear()
    for store in stores:
        store.close()


def open_with(access: Access) -> ObjectStore:
    """A store reached in just that way; the caller closes it. Raises as `for_uri`."""
    return _open(access.scheme, access.fields)


def _open(scheme: str, options: dict[str, Any] | None) -> ObjectStore:
    """`options`: as stores/credentials/resolved.py resolves them; None: the store's library looks for itself."""
    if scheme == "file":
        from tfquiver.stores.local import LocalStore

        return LocalStore()
    if scheme == "gs":
        try:
            from tfquiver.stores.gcs import GcsStore
        except ImportError as error:
            raise errors.InvalidArgumentError(
                "no store for gs:// here: pip install '.[gcs]' in a clone of tfquiver"
            ) from error
        return GcsStore(options)
    for attempt in (_fsspec, _gfile):
        store = attempt(scheme, options)
        if store is not None:
            return store
    if scheme in _WRITTEN_SO:
        raise errors.InvalidArgumentError(f"no store for {scheme}:// here: write {_WRITTEN_SO[scheme]}://")
    raise errors.InvalidArgumentError(
        f"no store for {scheme}:// here: pip install '.[fsspec]' in a clone of tfquiver and, where it is not part of "
        f"that, the fsspec package that serves {scheme}://; {THERE_ARE}"
    )


def _fsspec(scheme: str, options: dict[str, Any] | None) -> ObjectStore | None:
    try:
        from tfquiver.stores.fsspec import FsspecStore
    except ImportError:
        return None
    return FsspecStore.open(scheme, options)


def _gfile(scheme: str, _: dict[str, Any] | None) -> ObjectStore | None:
    from tfquiver.stores.gfile import GfileStore

    return GfileStore.open(scheme)
