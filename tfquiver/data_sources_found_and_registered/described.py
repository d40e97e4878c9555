"""The source that the user names: which files, how they become a data set, and how their stores are reached."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tfquiver import errors
from tfquiver.data_sources_found_and_registered.known_at_once import known_at_once
from tfquiver.data_sources_found_and_registered.listed import accesses_of, default_name, listed
from tfquiver.data_sources_found_and_registered.named import may_be_name
from tfquiver.listing.listing import Source
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.stores.credentials.resolved import Access, place_of
from tfquiver.users_arguments_checked.option_groups import FirstUse, Progress

if TYPE_CHECKING:
    from tfquiver.data_sources_found_and_registered.registration import Registrar
    from tfquiver.proto.tfquiver.v1 import types_pb2

Register = Callable[["Registrar", Progress | None, str], "types_pb2.Dataset"]
AtOnce = Callable[[str, float], "types_pb2.Dataset | None"]  # of the coordinator's address, and for how long it asks


class Described(NamedTuple):
    """A source that was looked at: what registers it, the ways to the stores it is in, and a quick first question."""

    register: Register
    accesses: list[Access]
    known_at_once: AtOnce


def _not_at_once(_coordinator: str, _patience_s: float) -> types_pb2.Dataset | None:
    return None


def describe(source: Source, first_use: FirstUse, in_order: bool) -> Described:
    """Looks at the source (this may raise)."""
    source = _settled(source)
    named = os.fspath(only) if isinstance(only := _only(source), str | os.PathLike) else ""
    if isinstance(named, str) and named.endswith(".tfqd"):
        if "://" in named.removeprefix("file://"):
            raise errors.InvalidArgumentError(f"{named}: a digest is read from a file of this machine: copy it here")
        path = Path(named.removeprefix("file://")).expanduser()
        if first_use.cut is not None:
            raise errors.InvalidArgumentError(f"cut=: {path} is a digest, it says where its shards end")
        if not path.is_file():
            raise errors.NotFoundError(f"no digest file at {path}")
        from tfquiver.digests.digest import Digest

        uris = (file.uri for file in Digest.open(path).files)
        return Described(
            lambda registrar, _progress, _client_id: registrar.digest(path), accesses_of(uris), _not_at_once
        )
    if isinstance(only, str) and may_be_name(only):
        if first_use.cut is not None or first_use.name is not None:
            raise errors.InvalidArgumentError(
                f"first_use: {only} is no file here, so it names a data set, which has a name and was cut already"
            )
        return Described(lambda registrar, progress, _client_id: _named(registrar, only, progress), [], _not_at_once)
    if any(map(_is_tensors, {type(source), *map(type, _parts(source))})):
        raise errors.InvalidArgumentError(
            f"source={source!r}: a tensor; files must be named when the pipeline is built. In place of interleave() or "
            "flat_map() over file names give all of them at once, tfquiver.dataset(names): it mixes their records"
        )
    try:
        files, accesses = listed(source, in_order)
    except errors.NotFoundError as error:
        if not isinstance(only, str) or not may_be_name(name := only.rstrip("/")):
            raise
        raise errors.NotFoundError(f"{error}; a data set that has a name is given without a slash: {name!r}") from error
    except TypeError as error:
        raise errors.InvalidArgumentError(f"source={source!r}: must be a path or a sequence of paths") from error
    except UnicodeEncodeError as error:  # half a character, as JSON may have it
        raise errors.InvalidArgumentError(f"source: {error.object[:256]!r} cannot be the name of a file") from error
    terms = ListingTerms(first_use.cut or CutPolicy(), place_of(accesses))

    def register(registrar: Registrar, progress: Progress | None, client_id: str) -> types_pb2.Dataset:
        return registrar.files(files, terms, first_use.name or default_name(source), progress, client_id)

    return Described(register, accesses, lambda where, patience_s: known_at_once(where, terms.key(files), patience_s))


def _named(registrar: Registrar, name: str, progress: Progress | None) -> types_pb2.Dataset:
    try:
        return registrar.named(name, progress)
    except errors.NotFoundError as error:
        if not Path(name).is_dir():
            raise
        raise errors.NotFoundError(
            f"{name} is a directory here: name its files, {name}/* ({name} alone would name a data set: {error})"
        ) from error


def _settled(source: Source) -> Source:
    """As a list: several look at names that may be such as can be gone through once (`Path.glob`), or have no order."""
    if isinstance(source, str | os.PathLike) or _is_tensors(type(source)):
        return source
    if isinstance(source, bytes | Mapping):
        do = "give its values" if isinstance(source, Mapping) else "give it as text (os.fsdecode)"
        raise errors.InvalidArgumentError(f"source={source!r}: must be a path or a sequence of paths: {do}")
    try:
        return list(source)
    except TypeError as error:
        raise errors.InvalidArgumentError(f"source={source!r}: must be a path or a sequence of paths") from error


def _is_tensors(kind: type) -> bool:
    return kind.__module__.startswith("tensorflow.")


def _parts(source: object) -> Sequence[object]:
    return source if isinstance(source, list | tuple) else ()


def _only(source: object) -> object:
    return parts[0] if len(parts := _parts(source)) == 1 else source
