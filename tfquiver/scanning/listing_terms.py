"""What a listing key is made of beside the files, and what it is checked against: a digest's own file table."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from tfquiver import errors
from tfquiver.content.file_entry import FileEntry
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.cutting import CutPolicy

_MAX_PLACE = 4096


def listing_key(files: Sequence[FileEntry], policy: CutPolicy, place: str = "") -> bytes:
    """32 bytes that name this listing, cut this way: names, sizes, generations, cutting parameters, and the place."""
    key = hashlib.sha256(b"tfquiver listing v1\0")
    key.update(f"{policy.min_bytes} {policy.target_bytes} {policy.max_bytes}\0".encode())
    for file in sorted(files, key=lambda file: file.uri):
        for part in (file.uri, str(file.size_bytes), file.generation):
            encoded = part.encode()
            key.update(len(encoded).to_bytes(8, "little") + encoded)
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

    def message(self) -> types_pb2.ListingTerms:
        policy = self.policy
        return types_pb2.ListingTerms(
            min_shard_bytes=policy.min_bytes,
            target_shard_bytes=policy.target_bytes,
            max_shard_bytes=policy.max_bytes,
            place=self.place,
        )

    @classmethod
    def of(cls, message: types_pb2.ListingTerms) -> ListingTerms:
        """Raises InvalidArgumentError naming the field."""
        if len(message.place) > _MAX_PLACE:
            raise errors.InvalidArgumentError(f"terms.place: longer than {_MAX_PLACE} characters")
        try:
            policy = CutPolicy(message.min_shard_bytes, message.target_shard_bytes, message.max_shard_bytes)
        except errors.InvalidArgumentError as error:
            raise errors.InvalidArgumentError(f"terms: {error}") from error
        return cls(policy, message.place)
