"""Which scheme draws the epochs of each session key. Pure; decisions are journaled as they are made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from tfquiver import errors
from tfquiver.messages_and_binary_formats.drawn_shards import KEY_MARK
from tfquiver.plain_text import shortened
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2

MOST_ARGUMENT_BYTES = 1 << 20
MOST_ASKED = 10_000
MOST_ASKED_BYTES = 64 << 20  # all of them are in every snapshot
_DEEPEST = 8


class AskedSamplings:
    def __init__(self, journal: Callable[[log_pb2.CommitRecord], None]) -> None:
        """`journal`: is given each decision; the caller makes it durable."""
        self._journal = journal
        self._asked: dict[str, log_pb2.SamplingAsked] = {}  # the one asked last comes last
        self._bytes = 0

    def ask(self, asked: log_pb2.SamplingAsked) -> None:
        if self._asked.get(asked.session_key) != asked:
            record = log_pb2.CommitRecord(sampling_asked=asked)
            self._journal(record)
            self.apply(record)

    def find(self, session_key: str, digest_id: bytes) -> log_pb2.SamplingAsked | None:
        """None: each record comes once. Raises InvalidArgumentError: it is sampled, and nobody knows any more how."""
        key = session_key.partition(":")[0]
        if KEY_MARK not in key:
            return None
        asked = self._asked.get(key)
        if asked is None or asked.digest_id != digest_id:
            raise errors.InvalidArgumentError(
                f"session_key: how {shortened(key)} is sampled is not known here any more: call tfquiver.dataset again"
            )
        return asked

    def weights(self) -> dict[str, bytes]:
        """Ids by session key, of those that are drawn by weights."""
        return {key: asked.weights_id for key, asked in self._asked.items() if asked.weights_id}

    def apply(self, record: log_pb2.CommitRecord) -> None:
        asked = record.sampling_asked
        self._drop(asked.session_key)
        self._asked[asked.session_key] = asked
        self._bytes += asked.ByteSize()
        while len(self._asked) > MOST_ASKED or (self._bytes > MOST_ASKED_BYTES and len(self._asked) > 1):
            self._drop(next(iter(self._asked)))

    def still(self) -> Callable[[], Iterator[log_pb2.CommitRecord]]:
        """Gives the records that bring an empty object where this one is now; in any thread, while this one goes on."""
        asked_now = list(self._asked.values())
        return lambda: (log_pb2.CommitRecord(sampling_asked=asked) for asked in asked_now)

    def _drop(self, session_key: str) -> None:
        asked = self._asked.pop(session_key, None)
        self._bytes -= asked.ByteSize() if asked else 0


def arguments_of(text: str) -> Mapping[str, object]:
    """Raises InvalidArgumentError: not a JSON object, or too large or too deep a one."""
    if (size_bytes := len(text.encode())) > MOST_ARGUMENT_BYTES:
        raise errors.InvalidArgumentError(f"arguments: {size_bytes} bytes; the limit is {MOST_ARGUMENT_BYTES}")
    try:
        arguments = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise errors.InvalidArgumentError(f"arguments: not JSON: {error}") from error
    if not isinstance(arguments, dict) or _depth(arguments) > _DEEPEST:
        raise errors.InvalidArgumentError(f"arguments: must be a JSON object, at most {_DEEPEST} deep")
    return arguments


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _depth(value: object, at: int = 1) -> int:
    inside = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return max((_depth(one, at + 1) for one in inside), default=at) if at <= _DEEPEST else at
