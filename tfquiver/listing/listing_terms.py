"""What a listing key is made of beside the files, and what it is checked against: a digest's own file table."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tfquiver import errors
from tfquiver.digests import formats
from tfquiver.digests.file_entry import FileEntry
from tfquiver.listing.listed_files import ListedFiles
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.cutting import CutPolicy

if TYPE_CHECKING:
    from tfquiver.digests.digest import Digest

_MAX_PLACE = 4096
_FORMATS = {
    formats.TFRECORD: types_pb2.DATASET_FORMAT_TFRECORD,
    formats.BYTES: types_pb2.DATASET_FORMAT_BYTES,
}
_NAMES: dict[int, str] = {number: name for name, number in _FORMATS.items()}


def format_number(name: str) -> types_pb2.DatasetFormat.ValueType:
    return _FORMATS[name]


def format_name(number: int) -> str:
    """Raises InvalidArgumentError: it is not known here."""
    if number not in _NAMES:
        raise errors.InvalidArgumentError(f"format: {number} is not known; is this server older?")
    return _NAMES[number]


def listing_key(files: Sequence[FileEntry], policy: CutPolicy, place: str = "") -> bytes:
    """32 bytes that name this listing, cut this way: names, sizes, generations, cutting parameters, and the place."""
    key = hashlib.sha256(b"tfquiver listing v1\0")
    key.update(f"{policy.min_bytes} {policy.target_bytes} {policy.max_bytes}\0".encode())
    if isinstance(files, ListedFiles):
        key.update(files.data)
        files = ()
    for file in sorted(files, key=lambda file: file.uri):
        for part in (file.uri, str(file.size_bytes), file.generation):
            encoded = part.encode()
            key.update(len(encoded).to_bytes(8, "little") + encoded)
    if policy.format != formats.TFRECORD:
        key.update(b"\0format\0" + policy.format.encode() + b"\0")
    if place:
        key.update(b"\0place\0" + place.encode())
    return key.digest()


@dataclass(frozen=True, slots=True)
class ListingTerms:
    """`place`: endpoints other than a scheme's public one ("": none): the same names elsewhere are other files."""

    policy: CutPolicy = field(default_factory=CutPolicy)
    place: str = ""

    def key(self, files: Sequence[FileEntry]) -> bytes:
        """The listing key of files so cut: of a listing, or of the digest that was made of it."""
        return listing_key(files, self.policy, self.place)

    def key_of(self, digest: Digest) -> bytes:
        """The listing key under which a digest may be registered with these terms; another one when its format is not
        theirs."""
        return listing_key(digest.files, replace(self.policy, format=digest.format), self.place)

    def message(self) -> types_pb2.ListingTerms:
        policy = self.policy
        return types_pb2.ListingTerms(
            min_shard_bytes=policy.min_bytes,
            target_shard_bytes=policy.target_bytes,
            max_shard_bytes=policy.max_bytes,
            place=self.place,
            format=format_number(policy.format),
        )

    @classmethod
    def of(cls, message: types_pb2.ListingTerms) -> ListingTerms:
        """Raises InvalidArgumentError naming the field."""
        if len(message.place) > _MAX_PLACE:
            raise errors.InvalidArgumentError(f"terms.place: longer than {_MAX_PLACE} characters")
        try:
            policy = CutPolicy(
                message.min_shard_bytes,
                message.target_shard_bytes,
                message.max_shard_bytes,
                format_name(message.format),
            )
        except errors.InvalidArgumentError as error:
            raise errors.InvalidArgumentError(f"terms: {error}") from error
        return cls(policy, message.place)
