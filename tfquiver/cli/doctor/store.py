"""An object store: whether what a glob names can be listed and read from here, and how fast."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from tfquiver import errors, stores
from tfquiver.cli.doctor.finding import Finding, fail, ok, warn
from tfquiver.plain_text import of_error, plain
from tfquiver.sizes_durations_amounts.amounts import many, of_bytes, of_rate
from tfquiver.stores.object_store import ObjectInfo, ObjectStore

_READ_BYTES = 8 << 20
_DEADLINE_S = 30.0
_SLOW_BYTES_PER_S = 5e6


def findings(patterns: Sequence[str]) -> Iterator[Finding]:
    """Several: as a shell makes them of a pattern."""
    what = f"store {plain(patterns[0], 300)}{f' and {len(patterns) - 1} more' if patterns[1:] else ''}"
    try:
        by_pattern = [(stores.for_uri(pattern), pattern) for pattern in patterns]
        began_s = time.perf_counter()
        found = [(store, one) for store, pattern in by_pattern for one in store.list(pattern)]
        took_s = time.perf_counter() - began_s
    except errors.TfquiverError as error:
        yield fail(what, of_error(error), "docs/guide/storage.md has credentials and endpoints of each store")
        return
    if not found:
        yield fail(what, "nothing is there", "name files, as in gs://bucket/train-*")
        return
    total = sum(one.size_bytes for _, one in found)
    yield ok(what, f"{many(len(found), 'object')}, {of_bytes(total)}, listed in {took_s:.2f} s")
    yield _read(*max(found, key=lambda its: its[1].size_bytes))


def _read(store: ObjectStore, one: ObjectInfo) -> Finding:
    what, length = "reads", min(one.size_bytes, _READ_BYTES)
    began_s = time.perf_counter()
    try:
        store.read(one.uri, 0, length, one.generation, _DEADLINE_S)
    except errors.TfquiverError as error:
        return fail(what, of_error(error), "this user may list, and not read: look at the rights of its credentials")
    took_s = time.perf_counter() - began_s
    rate = length / max(took_s, 1e-6)
    if length == _READ_BYTES and rate < _SLOW_BYTES_PER_S:
        do = "several reads at a time may be faster; if not, a cache pays all the more"
        return warn(what, f"{of_bytes(length)} in {took_s:.2f} s, {of_rate(rate)} over one connection", do)
    return ok(what, f"{of_bytes(length)} in {took_s:.2f} s, {of_rate(rate)} over one connection")
