"""What is to be mounted: files, a digest file, or a data set's name; and its digest from the coordinator."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from tfquiver import errors, stores
from tfquiver.data_sources_found_and_registered.listed import accesses_of, default_name, listed
from tfquiver.data_sources_found_and_registered.named import may_be_name
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.digests import formats
from tfquiver.digests.digest import Digest
from tfquiver.digests.file_entry import FileEntry
from tfquiver.grpc_plumbing import rpc
from tfquiver.listing.directories import beneath
from tfquiver.listing.listing import PACK_NOTE
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, types_pb2
from tfquiver.scanning import tfrecord
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.stores.credentials.resolved import Access, place_of
from tfquiver.users_arguments_checked.option_groups import Progress

MAX_DIGEST_BYTES = 4 << 30
AUTO = "auto"
_DIGEST_S = 600.0
_HEAD_S = 30.0
_HEX = re.compile(r"[0-9a-fA-F]{64}")

Register = Callable[[Registrar, Progress | None, str], types_pb2.Dataset]


@dataclass(frozen=True, slots=True)
class Named:
    """`register` makes the data set known (client_id as for Registrar.files); `accesses` as in listed.py, of files;
    None: what its digest says. `terms`: by which it is found by its files; None: it is not."""

    register: Register
    accesses: list[Access] | None
    terms: ListingTerms | None = None


def named(sources: Sequence[str], name: str, format: str) -> Named:
    """`format`: of files that nobody has used before; AUTO: as the first of them begins.

    Raises NotFoundError, InvalidArgumentError and others of a listing; each names the source.
    """
    only = sources[0] if len(sources) == 1 else ""
    if only.endswith(".tfqd"):
        path = Path(only.removeprefix("file://")).expanduser()
        if not path.is_file():
            raise errors.NotFoundError(f"no digest file at {path}")
        accesses = accesses_of(file.uri for file in Digest.open(path).files)
        return Named(lambda registrar, _progress, _client_id: registrar.digest(path), accesses)
    if only and not re.search(r"[/*?\[~]", only) and not os.path.lexists(only):
        return Named(lambda registrar, progress, _client_id: _of_name(registrar, only, progress), None)
    patterns = [beneath(source, format != formats.TFRECORD) for source in sources]
    files, accesses = listed(patterns, of_records=format == formats.TFRECORD)
    if format == AUTO:
        format = _format_of(_seen(files), accesses)
        if format == formats.TFRECORD:
            of_records = [beneath(source, False) for source in sources]
            if of_records != patterns or any(file.uri.endswith(PACK_NOTE) for file in files):
                files, accesses = listed(of_records)
    terms = ListingTerms(CutPolicy(format=format), place_of(accesses))

    def register(registrar: Registrar, progress: Progress | None, client_id: str) -> types_pb2.Dataset:
        return registrar.files(files, terms, name or _name_of(sources[0]), progress, client_id)

    return Named(register, accesses, terms)


def _seen(files: Sequence[FileEntry]) -> Sequence[FileEntry]:
    """Those below what all are in that are not hidden; all, where all are."""
    first, last = files[0].uri, files[-1].uri  # they are sorted
    same = next((at for at, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    common = first.rfind("/", 0, same)
    return [file for file in files if "/." not in file.uri[common:]] or files


def _format_of(files: Sequence[FileEntry], accesses: Sequence[Access]) -> str:
    """Records that are compressed are bytes: it is the files that are to be seen. Raises as reads of a store."""
    first = next((file for file in files if file.size_bytes >= tfrecord.HEADER_BYTES), None)
    if first is None:
        return formats.BYTES
    access = next((one for one in accesses if one.scheme == stores.scheme_of(first.uri)), None)
    store = stores.open_with(access) if access else stores.for_uri(first.uri)
    try:
        head = store.read(first.uri, 0, tfrecord.HEADER_BYTES, first.generation, _HEAD_S)
    finally:
        if access:
            store.close()
    return formats.TFRECORD if tfrecord.starts_with_record(head) else formats.BYTES


def _name_of(pattern: str) -> str:
    """Of `data/train/**/*.jpg` "train"."""
    plain = re.sub(r"/?[^/]*[*?\[].*", "", pattern) if re.search(r"\*\*|/[*?\[]", pattern) else pattern
    return default_name(plain or pattern)


def digest_of(coordinator: str, token: str, dataset: types_pb2.Dataset) -> Digest:
    """Raises NotFoundError, PermissionError_, UnavailableError; CorruptDigestError: it is not what its id says."""
    data = bytearray()
    with rpc.channel(coordinator) as channel:
        stub = coordinator_pb2_grpc.CoordinatorStub(channel)
        request = coordinator_pb2.GetDigestRequest(digest_id=dataset.digest_id)
        try:
            for part in stub.GetDigest(request, metadata=tuple(rpc.metadata(token)), timeout=_DIGEST_S):
                data += part.part
                if len(data) > MAX_DIGEST_BYTES:
                    raise errors.ResourceExhaustedError(
                        f"the digest of {dataset.name} is larger than {MAX_DIGEST_BYTES}"
                    )
        except grpc.RpcError as error:
            raise rpc.from_rpc_error(error, f"the digest of {dataset.name} from coordinator {coordinator}") from error
    digest = Digest.from_bytes(data, f"the digest of {dataset.name}")
    if digest.digest_id != dataset.digest_id:
        raise errors.CorruptDigestError(f"the digest of {dataset.name}: it is {digest.digest_id.hex()}")
    return digest


def check_shown(digest: Digest) -> None:
    """Raises InvalidArgumentError: its shards are not the files' own bytes."""
    for file in digest.files:
        if file.compression != "none":
            raise errors.InvalidArgumentError(
                f"{file.uri} is a {file.compression} file: what is cached of this data set is records, not the "
                "bytes of its files; mount the files themselves with --format=bytes"
            )


def _of_name(registrar: Registrar, name: str, progress: Progress | None) -> types_pb2.Dataset:
    """One that was given this name, its newest version, which is waited for, as by `tfquiver.dataset`; else one that
    its first use has named so, which may be called as what it shares its content with is."""
    request = coordinator_pb2.FindDatasetRequest
    if _HEX.fullmatch(name):
        found = registrar.find(request(digest_id=bytes.fromhex(name)))
    else:
        if may_be_name(name):
            with contextlib.suppress(errors.NotFoundError):
                return registrar.named(name, progress)
        found = registrar.find(request(name=name))
    if found is None:
        raise errors.NotFoundError(
            f"{name}: no file here has that name, and no registered data set that you may read has "
            "(tfquiver dataset list; its owner shares one: tfquiver dataset share)"
        )
    return found
