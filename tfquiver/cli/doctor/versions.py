"""Which versions servers are of, against this one, and which workers of tf.data service do not answer (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tfquiver.cli.doctor.finding import Finding, ok, warn
from tfquiver.cli.status_tables_and_warnings import workers_view
from tfquiver.plain_text import plain
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import DispatcherInfo
from tfquiver.service.coordinator.nodes_mounts_dispatchers import dispatchers as kept
from tfquiver.version import VERSION

_MOST_NAMED = 5
_DO = "make them one when the upgrade is over"


def of(what: str, versions: Iterable[str], silent: str = "older than it says") -> Iterator[Finding]:
    """Nothing where there are none. `silent`: who says no version."""
    counts = Counter(versions)
    if set(counts) - {VERSION}:
        said = ", ".join(f"{plain(version) or silent} ({count})" for version, count in counts.most_common(_MOST_NAMED))
        said += f", and {len(counts) - _MOST_NAMED} more" if len(counts) > _MOST_NAMED else ""
        yield warn(f"versions of {what}", f"{said}; here it is {VERSION}", _DO)
    elif counts:
        yield ok(f"versions of {what}", VERSION)


def of_service(dispatchers: Iterable[DispatcherInfo]) -> Iterator[Finding]:
    """Of tf.data service, and its workers that epochs wait for in vain."""
    dispatchers = list(dispatchers)
    yield from of("dispatchers", [one.version for one in dispatchers])
    workers = {worker.address: worker for one in dispatchers for worker in one.workers}
    answering = [one.version for one in workers.values() if not workers_view.is_silent({"silent_ms": one.silent_ms})]
    yield from of("workers", answering, "older than it says, or of the last seconds")
    missed = sorted(one.address for one in workers.values() if kept.is_missed(one.silent_ms, one.idle_ms))
    if missed:
        more = ", ..." if len(missed) > _MOST_NAMED else ""
        said = f"{len(missed)} of {len(workers)} do not answer: {', '.join(map(plain, missed[:_MOST_NAMED]))}{more}"
        yield warn("workers", said, "`tfquiver status` says what that costs, and what to do")
