"""What a line of the log is about (job, data set, shard, node), as fields of its own. Pure.

Words are for people and stay as they are; fields are for machines (`--log_format=json`,
`tfquiver.log_files_and_lines.log_lines`). Used with absl's logging:

    logging.warning("data set %s: %s", name, error, extra=about(dataset=name))
    with telling(job=job, digest=digest_id, shard=3):  # every line from here, of whatever code
        ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from logging import LogRecord
from types import MappingProxyType
from typing import Any

from tfquiver.plain_text import plain

KEY = "tfquiver_about"  # of a LogRecord
_MOST = 200  # characters of a field
_around: ContextVar[Mapping[str, str | int]] = ContextVar("tfquiver_about", default=MappingProxyType({}))


def about(
    *, job: str = "", dataset: str = "", digest: bytes = b"", shard: int = -1, hash: bytes = b"", node: str = ""
) -> dict[str, Any]:
    """For `extra=` of a line. Whatever is left out is not known, or of no matter.

    Args:
      job: its name.
      dataset: name of a data set.
      digest: its digest id.
      shard: its number in the data set.
      hash: of its content.
      node: id of the node that the line tells of, which need not be the one that writes it.
    """
    return {KEY: _fields(job, dataset, digest, shard, hash, node)}


@contextmanager
def telling(
    *,
    job: str = "",
    dataset: str = "",
    digest: bytes = b"",
    shard: int = -1,
    hash: bytes = b"",
    node: str = "",
    alone: bool = False,
) -> Iterator[None]:
    """All lines from inside are about this, too; what they say themselves goes first.

    Tasks that are started inside, and `asyncio.to_thread`, take it along; pools of threads need `copy_context`.
    `alone`: and not about what was around it: work that is done for several, and started by any of them.
    """
    fields = _fields(job, dataset, digest, shard, hash, node)
    token = _around.set(fields if alone else {**_around.get(), **fields})
    try:
        yield
    finally:
        _around.reset(token)


def fields_of(record: LogRecord) -> dict[str, str | int]:
    """By the thread that has written the line. Escaped, and cut to 200 characters."""
    said = {**_around.get(), **getattr(record, KEY, {})}
    return {name: plain(value, _MOST) if isinstance(value, str) else value for name, value in said.items()}


def _fields(job: str, dataset: str, digest: bytes, shard: int, hash: bytes, node: str) -> dict[str, str | int]:
    said = {"job": job, "dataset": dataset, "digest": digest.hex(), "hash": hash.hex(), "node": node}
    fields: dict[str, str | int] = {name: value for name, value in said.items() if value}
    if shard >= 0:
        fields["shard"] = shard
    return fields
