"""How this node reaches the stores of data sets that have names: with what their credentials refer to, or with its own.

A reference is looked up here, where the secret is; what it says is kept in memory only, and looked up again when it has
changed or expires. Errors name the reference and the data set, never what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from tfquiver import errors, stores
from tfquiver.stores import ObjectStore
from tfquiver.stores.credentials import resolved

T = TypeVar("T")


class Way:
    """One data set's. Thread-safe."""

    def __init__(self, name: str, reference: str) -> None:
        self._name, self._reference = name, reference

    def store_for(self, uri: str) -> ObjectStore:
        """Raises UnauthenticatedError, PermissionError_, InvalidArgumentError."""
        return stores.for_uri(uri)

    def place(self, uris: Iterable[str]) -> str:
        """Of the listing: see ListingTerms."""
        schemes = sorted({stores.scheme_of(uri) for uri in uris})
        accesses = (resolved.resolve(scheme) for scheme in schemes)
        return resolved.place_of(access for access in accesses if access is not None)

    def explained(self, call: Callable[[], T]) -> T:
        """What `call` gives. Raises what it raises; where the store refuses it says whose credentials those were."""
        try:
            return call()
        except (errors.PermissionError_, errors.UnauthenticatedError) as error:
            whose = f"the credentials {self._reference} of" if self._reference else "this node's own credentials, for"
            raise type(error)(f"{error} (with {whose} data set {self._name})") from error


class NamedAccess:
    def way(self, reference: str, name: str) -> Way:
        """Raises InvalidArgumentError, NotFoundError, PermissionError_, which name the reference."""
        if reference:
            raise errors.InvalidArgumentError(
                f"credentials: this node cannot look up {reference} (of data set {name}): it is of an older version"
            )
        return Way(name, reference)
