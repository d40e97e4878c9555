"""How a data set is cached, as a person writes and reads it."""

from __future__ import annotations

from typing import Any

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.sizes_durations_amounts import sizes
from tfquiver.sizes_durations_amounts.amounts import of_bytes

SYNTAX = "cooperative[:BYTES] | uniform[:BYTES] | lru[:BYTES] | none"
_WITH_BYTES = {
    "cooperative": types_pb2.CACHE_MODE_COOPERATIVE,
    "coop": types_pb2.CACHE_MODE_COOPERATIVE,  # as tables call it
    "uniform": types_pb2.CACHE_MODE_UNIFORM,
    "lru": types_pb2.CACHE_MODE_LRU,
}
_WITHOUT = {"full": types_pb2.CACHE_MODE_UNIFORM, "none": types_pb2.CACHE_MODE_NONE}


def parse(text: str, rotation: str = "", chunks: int = 0, partitions: int = 0) -> types_pb2.CacheSetting:
    """`text` is as SYNTAX says; `full` is `uniform`, and BYTES alone `uniform:BYTES`. Raises
    InvalidArgumentError naming it."""
    name, colon, size = text.partition(":")
    if name in _WITH_BYTES:
        setting = types_pb2.CacheSetting(mode=_WITH_BYTES[name])
        if colon:
            setting.allocation_bytes = _some_bytes(text, size)
    elif text in _WITHOUT:
        setting = types_pb2.CacheSetting(mode=_WITHOUT[text])
    else:
        setting = types_pb2.CacheSetting(mode=types_pb2.CACHE_MODE_UNIFORM, allocation_bytes=_some_bytes(text, text))
    if setting.mode != types_pb2.CACHE_MODE_COOPERATIVE:
        check_uncut(text, rotation, chunks, partitions)
    setting.rotation, setting.chunks, setting.partitions = rotation, chunks, partitions
    return setting


def check_uncut(text: str, rotation: str, chunks: int, partitions: int) -> None:
    """Of any setting but `cooperative`. Raises InvalidArgumentError."""
    if rotation or chunks or partitions:
        raise errors.InvalidArgumentError(f"{text}: --rotation, --chunks and --partitions are for cooperative")


def plain(setting: types_pb2.CacheSetting) -> dict[str, Any]:
    """The fields that say something, the mode by its name in lower case (`unset` when nobody has said)."""
    mode = types_pb2.CacheMode.Name(setting.mode).removeprefix("CACHE_MODE_").lower()
    fields: dict[str, Any] = {"mode": "unset" if mode == "unspecified" else mode}
    for name in ("allocation_bytes", "rotation", "chunks", "partitions", "decided_by"):
        if getattr(setting, name):
            fields[name] = getattr(setting, name)
    return fields


def text(fields: dict[str, Any], dataset_bytes: int) -> str:
    """One short phrase of what `plain` gave; `auto`: as a policy has it now, alone: none has decided yet."""
    if "decided_by" in fields:
        return f"auto: {text({key: value for key, value in fields.items() if key != 'decided_by'}, dataset_bytes)}"
    size = f" {of_bytes(fields['allocation_bytes'])}" if "allocation_bytes" in fields else ""
    mode = str(fields["mode"])
    if mode == "uniform" and size and fields["allocation_bytes"] >= dataset_bytes:  # no limit to it
        size = ""
    return {"cooperative": "coop", "unset": "auto"}.get(mode, mode) + size


def _some_bytes(whole: str, size: str) -> int:
    try:
        number = sizes.parse_bytes(size)
    except errors.InvalidArgumentError as error:
        if size and whole != size:  # the mode is one
            raise errors.InvalidArgumentError(f"{whole!r}: {error}") from error
        raise errors.InvalidArgumentError(f"{whole!r} is not a cache setting: write {SYNTAX} | auto") from error
    if not number:
        raise errors.InvalidArgumentError(f"{whole!r}: 0 bytes keep nothing; write none")
    if why := sizes.too_little_room(size):
        raise errors.InvalidArgumentError(f"{whole!r}: {why}, or none to keep nothing")
    return number
