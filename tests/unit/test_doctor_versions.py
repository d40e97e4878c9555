"""What `tfquiver doctor` says of versions of servers."""

from __future__ import annotations

from tfquiver.cli.doctor import versions
from tfquiver.cli.doctor.finding import Verdict
from tfquiver.proto.tfquiver.v1.coordinator_pb2 import DispatcherInfo, ServiceWorker
from tfquiver.version import VERSION


def dispatcher(*workers: ServiceWorker, version: str = VERSION) -> DispatcherInfo:
    return DispatcherInfo(address="d:1", workers=workers, version=version)


def worker(number: int, version: str = VERSION, silent_ms: int = 0) -> ServiceWorker:
    return ServiceWorker(address=f"w:{number}", version=version, silent_ms=silent_ms)


def test_a_cluster_without_tf_data_service_is_told_nothing_of_it() -> None:
    assert not list(versions.of_service([]))


def test_who_is_of_this_version_is_well() -> None:
    found = list(versions.of_service([dispatcher(worker(1), worker(2))]))
    assert [(one.what, one.verdict, one.why) for one in found] == [
        ("versions of dispatchers", Verdict.OK, VERSION),
        ("versions of workers", Verdict.OK, VERSION),
    ]


def test_each_other_version_is_named_with_how_many_are_of_it() -> None:
    mixed = dispatcher(worker(1), worker(2, "0.0.1"), worker(3, "0.0.1"), worker(4, ""), version="")
    of_dispatchers, of_workers = versions.of_service([mixed])
    assert of_dispatchers.verdict is of_workers.verdict is Verdict.WARN
    assert of_dispatchers.why == f"older than it says (1); here it is {VERSION}"
    assert of_workers.why == (
        f"0.0.1 (2), {VERSION} (1), older than it says, or of the last seconds (1); here it is {VERSION}"
    )
    assert of_workers.do


def test_a_worker_that_does_not_answer_is_named_and_has_no_version_and_one_of_two_dispatchers_counts_once() -> None:
    """Of a machine that was cut off the node was told as lost, and of the worker nothing."""
    told = [dispatcher(worker(1), worker(2, "", silent_ms=20_000)), dispatcher(worker(1))]
    *of_versions, silent = versions.of_service(told)
    assert [one.verdict for one in of_versions] == [Verdict.OK, Verdict.OK]
    assert (silent.what, silent.verdict, silent.why) == ("workers", Verdict.WARN, "1 of 2 do not answer: w:2")


def test_a_worker_that_is_gone_for_good_is_not_missed() -> None:
    gone = ServiceWorker(address="w:2", silent_ms=10**7, idle_ms=10**7)
    assert [one.verdict for one in versions.of_service([dispatcher(worker(1), gone)])] == [Verdict.OK, Verdict.OK]
