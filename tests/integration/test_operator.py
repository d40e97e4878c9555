"""The operator as a process, between a real coordinator with its node and an API server that speaks the wire format."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support import records
from tests.support.cluster import Server, wait_until
from tests.support.kube_api import KubeApi
from tests.support.kube_api.objects import ApiError
from tests.support.kubectl import CONFIGS
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, named_datasets_pb2, named_datasets_pb2_grpc
from tfquiver.proto.tfquiver.v1.types_pb2 import PlacementRule

OPERATOR = "tfquiver.service.operator.main"
CRDS = tuple(yaml.safe_load((CONFIGS / "base" / f"crd-{name}.yaml").read_text()) for name in ("dataset", "trainingjob"))
POD = {"containers": [{"name": "main", "image": "trainer", "command": ["python", "train.py"]}]}
SOON_S = 60.0


class Place:
    """A coordinator, a node, Kubernetes' API and an operator, each to be killed."""

    def __init__(self, root: Path, api: KubeApi) -> None:
        self.root, self.api = root, api
        rng = random.Random(4)
        (root / "train-0").write_bytes(records.stream([rng.randbytes(2000) for _ in range(300)]))
        arguments = ["--port=0", f"--work_dir={root / 'work'}"]
        self.coordinator = Server("tfquiver.service.coordinator.main", arguments, root / "coordinator.log").start()
        there = f"--coordinator={self.coordinator.address}"
        flags = [f"--cache_dir={root / 'cache'}", "--quota=64MiB", there, "--labels=host=machine"]
        self.node = Server("tfquiver.service.node.main", flags, root / "node.log").start()
        flags = [there, f"--kubernetes_api={api.url}", "--every_s=0.3", "--port=0"]
        self.operator = Server(OPERATOR, flags, root / "operator.log").start()
        labels = {f"feature.node.kubernetes.io/cpu-cpuid.{number}": "true" for number in range(40)}
        labels |= {"tfquiver.dev/cache": "true", "kubernetes.io/hostname": "ip-10-0-0-1"}
        api.create("nodes", {"metadata": {"name": "machine", "labels": labels}})

    def stop(self) -> list[int]:
        return [server.stop(20.0) for server in (self.operator, self.node, self.coordinator)]

    def dataset(self, name: str, **spec: Any) -> None:
        given = {"sources": [str(self.root / "train-*")], **spec}
        self.api.create("datasets", {"metadata": {"name": name}, "spec": given})

    def job(self, name: str, **spec: Any) -> None:
        given = {"dataset": "train", "template": {"spec": POD}, **spec}
        self.api.create("trainingjobs", {"metadata": {"name": name}, "spec": given})

    def status(self, plural: str, name: str) -> dict[str, Any]:
        return dict((self.api.get(plural, name) or {}).get("status") or {})

    def until(self, plural: str, name: str, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        try:
            wait_until(lambda: condition(self.status(plural, name)), f"{plural} {name}", SOON_S, 0.05)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {self.status(plural, name)}\n{self.operator.log_tail()}") from error
        return self.status(plural, name)

    def names(self) -> list[str]:
        """Of the data sets that the coordinator has."""
        return [one.spec.name for one in self._listed()]

    def asked(self, method: str, request: Any) -> None:
        """Of the coordinator, by a person."""
        with rpc.channel(self.coordinator.address) as channel:
            getattr(named_datasets_pb2_grpc.NamedDatasetsStub(channel), method)(request, timeout=20)

    def rule(self, digest: str) -> PlacementRule:
        """Where the coordinator keeps that content. `digest`: hexadecimal."""
        with rpc.channel(self.coordinator.address) as channel:
            request = pb.GetPlacementRequest(digest_id=bytes.fromhex(digest))
            return coordinator_pb2_grpc.CoordinatorStub(channel).GetPlacement(request, timeout=20).rule

    def _listed(self) -> Sequence[named_datasets_pb2.NamedDataset]:
        with rpc.channel(self.coordinator.address) as channel:
            stub = named_datasets_pb2_grpc.NamedDatasetsStub(channel)
            reply = stub.List(named_datasets_pb2.ListNamedDatasetsRequest(), timeout=20, wait_for_ready=True)
        return list(reply.datasets)

    def formats(self) -> dict[str, str]:
        """What the coordinator has cut, by name."""
        return {one.spec.name: "tfrecord" if one.dataset.records else "bytes" for one in self._listed()}


def said(status: dict[str, Any], condition: str) -> tuple[str, str]:
    return next(
        ((one["status"], one["reason"]) for one in status.get("conditions", []) if one["type"] == condition), ("", "")
    )


def is_ready(status: dict[str, Any]) -> bool:
    return said(status, "Ready")[0] == "True"


@pytest.fixture(params=[True])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with KubeApi(CRDS, checks_schemas=request.param) as api:
        place = Place(tmp_path, api)
        try:
            yield place
        finally:
            codes = place.stop()
        assert set(codes) <= {0, -signal.SIGKILL}, place.operator.log_tail()


def test_from_a_data_set_to_a_job_that_is_over(place: Place) -> None:
    place.job("sweep", workers=2, ttlSecondsAfterFinished=60)
    waiting = place.until("trainingjobs", "sweep", lambda status: status.get("state") == "Waiting")
    assert said(waiting, "Started") == ("False", "DatasetMissing")
    place.dataset("train", prefetch=True, placement={"selector": {"host": "machine"}})
    whole = place.until("datasets", "train", lambda status: said(status, "Resident")[0] == "True")
    assert is_ready(whole) and whole["sizeBytes"] == whole["residentBytes"] > 0 and whole["dataset"] == "default.train"
    assert place.names() == ["default.train"]
    started = place.until("trainingjobs", "sweep", lambda status: bool(status.get("job")))
    assert said(started, "Started")[0] == "True"
    job = place.api.get("jobs", "sweep")
    assert job is not None
    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)
    pod = job["spec"]["template"]["spec"]
    env = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
    assert env["TFQUIVER_DATASET"] == "default.train" and env["TFQUIVER_SERVICE"] == place.coordinator.address
    place.api.patch("jobs", "sweep", {"status": {"active": 2}}, status=True)
    place.until("trainingjobs", "sweep", lambda status: (status["state"], status["active"]) == ("Running", 2))
    over = {"active": 0, "succeeded": 2, "conditions": [{"type": "Complete", "status": "True"}]}
    place.api.patch("jobs", "sweep", {"status": over}, status=True)
    place.until("trainingjobs", "sweep", lambda status: (status["state"], status["succeeded"]) == ("Complete", 2))
    wait_until(
        lambda: (place.api.get("jobs", "sweep") or {})["spec"].get("ttlSecondsAfterFinished") == 60,
        "Kubernetes may delete it", SOON_S,
    )  # fmt: skip
    place.api.delete("jobs", "sweep")
    place.job("other")
    place.until("trainingjobs", "other", lambda status: bool(status.get("job")))
    assert place.api.get("jobs", "sweep") is None, "what is over is not run again"
    other = place.api.get("jobs", "other")
    assert other is not None
    affinity = other["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    (near,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert (near["weight"], near["preference"]["matchExpressions"][0]["values"]) == (100, ["ip-10-0-0-1"])
    assert place.rule(whole["digest"]).selector == "host=machine"
    place.api.delete("datasets", "train")
    wait_until(lambda: place.api.get("datasets", "train") is None, "the object is gone", SOON_S)
    wait_until(lambda: not place.names(), "its data set goes, when nodes have deleted what they keep", SOON_S)


def test_content_is_kept_in_one_way_whatever_its_objects_ask(place: Place) -> None:
    """Each of two objects had it moved every five seconds, and one without a placement took away that of another."""
    place.dataset("train", placement={"selector": {"host": "machine"}})
    ready = place.until("datasets", "train", is_ready)
    place.dataset("anywhere")
    assert place.until("datasets", "anywhere", is_ready)["message"] == ""
    place.dataset("other", placement={"stripe": 1})
    told = place.until("datasets", "other", lambda status: "not placed: " in status.get("message", ""))
    assert is_ready(told) and told["digest"] == ready["digest"], "it can be read"
    assert "of the same content as default.anywhere, default.train, which is kept on host=machine" in told["message"]
    assert place.rule(ready["digest"]).selector == "host=machine"
    for name in ("anywhere", "other"):
        place.api.delete("datasets", name)
    wait_until(lambda: place.names() == ["default.train"], "the others are gone", SOON_S)
    place.api.patch("datasets", "train", {"spec": {"placement": {"replicas": 7}}})
    told = place.until("datasets", "train", lambda status: "replicas: 7 are more than" in status.get("message", ""))
    assert said(told, "Ready") == ("True", "Ready"), "what cannot be is where it is kept"
    place.job("sweep")
    assert place.until("trainingjobs", "sweep", lambda status: bool(status.get("job")))["state"] == "Starting"


def test_killed_and_started_again_in_the_middle(place: Place) -> None:
    """At a dozen moments between the object and the end of its job: one data set, one job, and nothing left."""
    rng = random.Random(int(os.environ.get("PYTEST_SEED", "7")))
    place.dataset("train", pin=True)
    place.job("sweep")

    def restart() -> None:
        wait_until(lambda: False or rng.random() < 0.2, "a moment", 30.0, 0.05)
        place.operator.kill()
        place.operator.start()

    for _ in range(4):
        restart()
    place.until("trainingjobs", "sweep", lambda status: bool(status.get("job")))
    restart()
    over = {"failed": 1, "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}
    place.api.patch("jobs", "sweep", {"status": over}, status=True)
    restart()
    failed = place.until("trainingjobs", "sweep", lambda status: status.get("state") == "Failed")
    assert said(failed, "Failed") == ("True", "BackoffLimitExceeded")
    assert [kind for kind, _ in place.api.history("jobs", "sweep")].count("ADDED") == 1
    assert place.names() == ["default.train"]
    place.api.delete("datasets", "train")
    restart()
    wait_until(lambda: place.api.get("datasets", "train") is None, "the object is gone", SOON_S)
    wait_until(lambda: not place.names(), "its data set goes, when nodes have deleted what they keep", SOON_S)


def test_a_watch_that_is_too_old_is_begun_anew(place: Place) -> None:
    place.dataset("train")
    place.until("datasets", "train", is_ready)
    before = len(place.api.requests)
    place.api.compact()
    wait_until(
        lambda: any("watch=true" in path and "/datasets" in path for _, path in place.api.requests[before:]),
        "it watches again", SOON_S,
    )  # fmt: skip
    place.dataset("other", sources=[f"{place.root}/train-0"], format="bytes")
    place.until("datasets", "other", is_ready)
    assert place.formats() == {"default.train": "tfrecord", "default.other": "bytes"}
    assert any("allowWatchBookmarks" in path for _, path in place.api.requests if "watch=true" in path)


@pytest.mark.parametrize("place", [False], indirect=True)
def test_what_cannot_be_is_said_and_mended(place: Place) -> None:
    """Where a schema is older, or was switched off, it is the operator that reads what anybody wrote."""
    for name, spec in {"empty": {}, "text": "x", "secret": {"sources": ["/x"], "credentials": "AKIA"}}.items():
        place.api.create("datasets", {"metadata": {"name": name}, "spec": spec})
    place.api.create("trainingjobs", {"metadata": {"name": "empty"}, "spec": {"template": 3}})
    for name in ("empty", "secret"):
        status = place.until("datasets", name, lambda status: status.get("state") == "Invalid")
        assert said(status, "Ready") == ("False", "InvalidSpec") and "spec." in status["message"]
    status = place.until("trainingjobs", "empty", lambda status: status.get("state") == "Invalid")
    assert "spec.dataset" in status["message"]
    sources = [str(place.root / "train-*")]
    place.api.patch("datasets", "empty", {"spec": {"sources": sources}})
    place.until("datasets", "empty", is_ready)
    for name in ("secret", "empty"):
        place.api.delete("datasets", name)
        wait_until(lambda name=name: place.api.get("datasets", name) is None, f"{name} is gone", SOON_S)


def test_the_schemas_refuse_what_the_operator_would(place: Place) -> None:
    for spec in (
        {},
        {"sources": []},
        {"sources": ["x"], "pin": "yes"},
        {"sources": ["x"], "format": "csv"},
        {"sources": ["x"], "credentials": "AKIA"},
    ):
        with pytest.raises(ApiError, match="is invalid"):
            place.api.create("datasets", {"metadata": {"name": "wrong"}, "spec": spec})
    for spec in (
        {},
        {"dataset": "x", "template": {"spec": {}}},
        {"dataset": "x", "template": {"spec": POD}, "workers": 0},
    ):
        with pytest.raises(ApiError, match="is invalid"):
            place.api.create("trainingjobs", {"metadata": {"name": "wrong"}, "spec": spec})


def test_nothing_is_deleted_while_the_coordinator_is_away(place: Place) -> None:
    place.dataset("train")
    place.until("datasets", "train", is_ready)
    place.coordinator.kill()
    away = place.until("datasets", "train", lambda status: said(status, "Ready")[0] == "Unknown")
    assert said(away, "Ready")[1] == "Unavailable"
    place.api.delete("datasets", "train")
    place.until("datasets", "train", lambda status: "cannot go yet" in status.get("message", ""))
    assert place.api.get("datasets", "train") is not None, "its data set would be nobody's"
    place.coordinator.restart()
    wait_until(lambda: place.api.get("datasets", "train") is None, "the object is gone", SOON_S)
    wait_until(lambda: not place.names(), "its data set goes, when nodes have deleted what they keep", SOON_S)


def test_a_job_of_that_name_that_is_somebodys_is_left_alone(place: Place) -> None:
    theirs = {"metadata": {"name": "sweep"}, "spec": {"template": {"spec": POD}}}
    place.api.create("jobs", theirs)
    place.dataset("train", deletionPolicy="Retain")
    place.job("sweep")
    taken = place.until("trainingjobs", "sweep", lambda status: said(status, "Started")[1] == "NameTaken")
    assert taken["state"] == "Waiting"
    place.until("datasets", "train", is_ready)
    place.api.delete("datasets", "train")
    wait_until(lambda: place.api.get("datasets", "train") is None, "the object is gone", SOON_S)
    assert place.names() == ["default.train"], "it was to stay"


def test_a_data_set_of_that_name_that_somebody_made_by_hand_is_left_alone(place: Place) -> None:
    """Decision 0038; it went with the object, which had never had it."""
    theirs = named_datasets_pb2.DatasetSpec(name="default.train", sources=[f"{place.root}/train-0"])
    place.asked("Create", theirs)
    place.dataset("train", prefetch=True, pin=True)
    taken = place.until("datasets", "train", lambda status: said(status, "Ready")[1] == "NameTaken")
    assert "give this object another name" in taken["message"] and not taken.get("dataset")
    place.api.delete("datasets", "train")
    wait_until(lambda: place.api.get("datasets", "train") is None, "the object is gone", SOON_S)
    assert place.names() == ["default.train"]


@pytest.mark.parametrize("place", [False], indirect=True)
def test_a_data_set_goes_with_its_object_whatever_became_of_the_spec(place: Place) -> None:
    for name in ("invalid", "changed"):
        place.dataset(name)
        place.until("datasets", name, is_ready)
    place.api.patch("datasets", "invalid", {"spec": {"format": "csv"}})
    place.api.patch("datasets", "changed", {"spec": {"format": "bytes"}})
    place.until("datasets", "invalid", lambda status: status.get("state") == "Invalid")
    place.until("datasets", "changed", lambda status: said(status, "Ready")[1] == "SpecChanged")
    for name in ("invalid", "changed"):
        place.api.delete("datasets", name)
        wait_until(lambda name=name: place.api.get("datasets", name) is None, f"{name} is gone", SOON_S)
    wait_until(lambda: not place.names(), "their data sets go", SOON_S)


def test_what_was_deleted_by_hand_is_made_and_prefetched_anew(place: Place) -> None:
    """It was made, and never prefetched: the one before it had been."""

    def whole(status: dict[str, Any]) -> bool:
        return said(status, "Resident")[0] == "True"

    place.dataset("train", prefetch=True)
    place.until("datasets", "train", whole)
    place.asked("Delete", named_datasets_pb2.NamedDatasetRequest(name="default.train"))
    place.until("datasets", "train", lambda status: not whole(status))
    place.until("datasets", "train", whole)


def test_as_many_sources_as_a_data_set_can_have(place: Place) -> None:
    """kopf kept them once more, in annotations, where there is no room for them: nothing was told of the object."""
    sources = [f"{place.root}/{'é' * 200}-{number}" for number in range(500)]
    place.dataset("train", sources=[*sources, f"{place.root}/train-0"])
    place.until("datasets", "train", lambda status: bool(status.get("dataset")))
    place.api.delete("datasets", "train")
    wait_until(lambda: place.api.get("datasets", "train") is None, "the object is gone", SOON_S)
    wait_until(lambda: not place.names(), "its data set goes", SOON_S)
