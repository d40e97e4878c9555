"""From what an object asks for, and what is there, to what is done and said: for anything that anybody wrote."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tfquiver import errors
from tfquiver.service.operator import dataset_plan, job_manifest, job_plan
from tfquiver.service.operator.checked_specs import dataset_wish, job_wish
from tfquiver.service.operator.checked_specs.dataset_wish import Rule
from tfquiver.service.operator.dataset_plan import Action, Observed, Trouble
from tfquiver.service.operator.job_manifest import NodeScore, Surroundings
from tfquiver.service.operator.job_plan import Step, Waiting

AT, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
SPEC = {"sources": ["gs://b/train-*"], "pin": True, "prefetch": True, "placement": {"selector": {"rack": "r1"}}}
JOB = {
    "dataset": "train",
    "template": {"spec": {"containers": [{"name": "main", "image": "trainer"}]}},
}
META = {"name": "sweep", "namespace": "team", "uid": "u-1"}
AROUND = Surroundings("coordinator:5040", 10001)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 1 << 70) | st.text(max_size=8) | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


RULE = Rule("rack=r1")


def observed(state: str = "ready", **other: Any) -> Observed:
    plain: dict[str, Any] = {
        "reason": "", "version": 1, "sources": ("gs://b/train-*",), "format": "tfrecord", "credentials": "",
        "pin": False, "digest_id": "ab",
        "size_bytes": 100, "done_bytes": 0, "total_bytes": 0, "resident_bytes": 40, "rule": RULE,
    }  # fmt: skip
    return Observed(state=state, **(plain | other))


def wish(**other: Any) -> dataset_wish.DatasetWish:
    return dataset_wish.parse("team", "train", SPEC | other)


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}


class TestDatasets:
    def test_what_it_asks_for(self) -> None:
        asked = wish(placement={"selector": {"rack": "r1", "disk": "nvme"}, "replicas": 2, "rackLocal": True})
        assert asked.name == "team.train"
        assert asked.rule == Rule("disk=nvme,rack=r1", 0, True, 2)
        assert not asked.is_kept and wish(deletionPolicy="Retain").is_kept

    @pytest.mark.parametrize(
        ("spec", "field"),
        [
            (None, "spec.sources"),
            ([], "spec is not an object"),
            ({}, "spec.sources"),
            ({"sources": "gs://b"}, "spec.sources"),
            ({"sources": ["a", 3]}, "spec.sources[1]"),
            ({"sources": ["a\nb"]}, "spec.sources[0]"),
            ({"sources": ["a"] * 1001}, "spec.sources"),
            (SPEC | {"pin": "yes"}, "spec.pin"),
            (SPEC | {"format": "parquet"}, "spec.format"),
            (SPEC | {"format": ["bytes"]}, "spec.format"),
            (SPEC | {"credentials": "AKIA-a-secret"}, "spec.credentials"),
            (SPEC | {"credentials": "k8s:Secret"}, "spec.credentials"),
            (SPEC | {"deletionPolicy": "Orphan"}, "spec.deletionPolicy"),
            (SPEC | {"placement": 3}, "spec.placement"),
            (SPEC | {"placement": {"stripe": True}}, "spec.placement.stripe"),
            (SPEC | {"placement": {"replicas": 17}}, "spec.placement.replicas"),
            (SPEC | {"placement": {"selector": {"a,b": "c"}}}, "spec.placement.selector"),
            (SPEC | {"placement": {"selector": {"a": "c=d"}}}, "spec.placement.selector"),
        ],
    )
    def test_what_is_wrong_is_named(self, spec: Any, field: str) -> None:
        with pytest.raises(errors.InvalidArgumentError) as wrong:
            dataset_wish.parse("team", "train", spec)
        assert field in str(wrong.value)
        assert "AKIA" not in str(wrong.value), "a secret in the wrong place is not repeated"

    @pytest.mark.slow
    @given(JSON)
    def test_whatever_is_written_is_read_or_refused(self, spec: Any) -> None:
        for given_spec in (spec, SPEC | spec if isinstance(spec, dict) else spec):
            try:
                dataset_wish.parse("team", "train", given_spec)
            except errors.InvalidArgumentError as error:
                assert str(error).startswith("spec")

    def test_a_name_that_is_too_long_is_said(self) -> None:
        with pytest.raises(errors.InvalidArgumentError, match="longer than the 63"):
            dataset_wish.parse("n" * 40, "d" * 40, SPEC)

    @pytest.mark.parametrize(
        ("there", "prefetched", "done"),
        [
            (None, 0, [Action.CREATE]),
            (observed("scanning", version=0), 0, [Action.PIN]),
            (observed(), 0, [Action.PIN, Action.PREFETCH]),
            (observed(pin=True), 0, [Action.PREFETCH]),
            (observed(pin=True), 1, []),
            (observed(pin=True, version=2), 1, [Action.PREFETCH]),
            (observed("warming", pin=True), 0, []),
            (observed(pin=True, rule=Rule()), 1, [Action.PLACE]),
            (observed(pin=True, rule=Rule("rack=r1", replicas=1)), 1, []),
            (observed("scanning", pin=True, rule=Rule(), version=0, digest_id=""), 0, []),
            (observed("deleting"), 0, []),
            (observed(sources=("gs://other",)), 0, []),
            (observed(format="bytes"), 0, []),
        ],
    )
    def test_what_is_done(self, there: Observed | None, prefetched: int, done: list[Action]) -> None:
        assert dataset_plan.actions(wish(), there, prefetched) == done

    def test_doing_it_comes_to_an_end(self) -> None:
        """Whatever is carried out is not asked for again."""
        there, prefetched, rounds = None, 0, 0
        while todo := dataset_plan.actions(wish(), there, prefetched):
            rounds += 1
            assert rounds < 5
            for action in todo:
                if action is Action.CREATE:
                    there = observed()
                elif action is Action.PIN:
                    there = observed(pin=True)
                elif action is Action.PREFETCH:
                    prefetched = 1
        assert there is not None and there.pin

    def test_what_the_status_says(self) -> None:
        status = dataset_plan.status(wish(), observed(), None, {}, 3, AT)
        assert conditions(status) == {"Ready": ("True", "Ready"), "Resident": ("False", "Partly")}
        assert (status["state"], status["sizeBytes"], status["residentBytes"]) == ("Ready", 100, 40)
        whole = dataset_plan.status(wish(), observed(resident_bytes=100), None, status, 3, LATER)
        at = {one["type"]: one["lastTransitionTime"] for one in whole["conditions"]}
        assert at == {"Ready": AT, "Resident": LATER}, "a time is that of a change"
        scanning = dataset_plan.status(
            wish(), observed("scanning", version=0, done_bytes=1, total_bytes=3), None, {}, 1, AT
        )
        assert (scanning["state"], scanning["progress"]) == ("Scanning", "33%")
        assert conditions(scanning)["Ready"] == ("False", "Scanning")
        away = dataset_plan.status(wish(), None, Trouble("Unavailable", "away", False), status, 3, AT)
        assert conditions(away)["Ready"] == ("Unknown", "Unavailable")
        another = dataset_plan.status(wish(), observed(sources=("x",)), None, status, 3, AT)
        assert conditions(another)["Ready"] == ("False", "SpecChanged") and another["dataset"] == "team.train"
        theirs = dataset_plan.status(wish(), observed(sources=("x",)), None, {}, 3, AT)
        assert conditions(theirs)["Ready"] == ("False", "NameTaken") and theirs["dataset"] is None

    def test_whose_a_data_set_is(self) -> None:
        """One that was made a moment ago, of which no status says anything, is its object's by what it is made of."""
        other = observed(sources=("x",))
        assert dataset_plan.is_own(wish(), observed(), None)
        assert dataset_plan.is_own(wish(), other, {"dataset": "team.train"})
        assert not dataset_plan.is_own(wish(), other, {"dataset": "team.other"})
        assert not dataset_plan.is_own(wish(), other, {"dataset": ["team.train"]})
        assert not dataset_plan.is_own(wish(), None, {})

    @given(JSON)
    @example({"type": []})
    @example({"type": "Ready", "status": "True", "lastTransitionTime": 1})
    def test_a_status_that_others_wrote_does_no_harm(self, before: Any) -> None:
        for was in (before, {"conditions": before}, {"conditions": [before]}):
            made = dataset_plan.status(wish(), observed(), None, was, 1, AT)
            assert made["state"] == "Ready"
            assert all(isinstance(one["lastTransitionTime"], str) for one in made["conditions"])
            assert job_plan.status(None, Waiting("A", "b"), was, 1, AT)["state"] == "Waiting"
            assert job_plan.step(was, None) is Step.MAKE or isinstance(was, dict)
            found = job_plan.readable(job_wish.parse("sweep", JOB), {"status": was})
            assert isinstance(found, Waiting) and found.reason == "DatasetNotReady"


class TestJobs:
    @pytest.mark.parametrize(
        ("spec", "field"),
        [
            (None, "spec.dataset"),
            ({}, "spec.dataset"),
            (JOB | {"template": 3}, "spec.template"),
            (JOB | {"template": {}}, "spec.template.spec.containers"),
            (JOB | {"template": {"spec": {"containers": [3]}}}, "spec.template.spec.containers"),
            (JOB | {"template": {"spec": {"containers": [{"env": 3}]}}}, "spec.template.spec.containers[0].env"),
            (JOB | {"workers": 0}, "spec.workers"),
            (JOB | {"placement": "Always"}, "spec.placement"),
            (JOB | {"cacheDirectory": "cache"}, "spec.cacheDirectory"),
            (JOB | {"tokenSecret": "x"}, "spec.tokenSecret"),
            (JOB | {"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished"),
        ],
    )
    def test_what_is_wrong_is_named(self, spec: Any, field: str) -> None:
        with pytest.raises(errors.InvalidArgumentError) as wrong:
            job_wish.parse("sweep", spec)
        assert field in str(wrong.value)

    @given(JSON, JSON)
    def test_whatever_is_written_is_refused_or_makes_a_job(self, spec: Any, pod: Any) -> None:
        pods = {"template": {"spec": pod}}
        if isinstance(pod, dict):
            pods = {"template": {"spec": {"containers": [{"name": "main"}]} | pod}}
        for given_spec in (spec, JOB | spec if isinstance(spec, dict) else spec, JOB | pods):
            try:
                asked = job_wish.parse("sweep", given_spec)
            except errors.InvalidArgumentError as error:
                assert str(error).startswith("spec")
                continue
            made = job_manifest.of(asked, META, "team.train", AROUND, [NodeScore("a", 0.5)])
            assert made["spec"]["template"]["spec"]["containers"]

    def test_what_a_pod_gets(self) -> None:
        spec = copy.deepcopy(JOB) | {"workers": 2, "tokenSecret": {"name": "job-token"}, "ttlSecondsAfterFinished": 0}
        asked = job_wish.parse("sweep", spec)
        made = job_manifest.of(asked, META, "team.train", AROUND, [NodeScore("a", 1.0), NodeScore("b", 0.0)])
        assert made["metadata"]["ownerReferences"][0]["uid"] == "u-1"
        assert "ttlSecondsAfterFinished" not in made["spec"], "only when its end is written down"
        pod = made["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        env = {one["name"]: one["value"] for one in container["env"]}
        assert env["TFQUIVER_SERVICE"] == "coordinator:5040" and env["TFQUIVER_DATASET"] == "team.train"
        assert env["TFQUIVER_AUTH_TOKEN_FILE"] == "/etc/tfquiver/token/token"
        assert pod["securityContext"] == {"supplementalGroups": [10001], "fsGroup": 10001}
        mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
        assert mounts["/var/cache/tfquiver"]["readOnly"]
        preferred = pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        assert [(one["weight"], one["preference"]["matchExpressions"][0]["values"]) for one in preferred] == [
            (100, ["a"])
        ]
        assert spec["template"] == JOB["template"], "what a person wrote is not changed"

    def test_what_a_person_wrote_stays(self) -> None:
        mine = {"name": "TFQUIVER_SERVICE", "value": "other:1"}
        terms = [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, {}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        pod = {
            "containers": [{"name": "main", "env": [mine]}],
            "restartPolicy": "OnFailure",
            "affinity": {"nodeAffinity": required},
            "securityContext": {"runAsUser": 5, "supplementalGroups": [7]},
        }
        asked = job_wish.parse("sweep", JOB | {"placement": "Require", "template": {"spec": pod}})
        made = job_manifest.of(asked, META, "d", AROUND, [NodeScore("b", 0.5), NodeScore("a", 0.4)])
        got = made["spec"]["template"]["spec"]
        assert got["containers"][0]["env"][0] == mine
        assert [one["name"] for one in got["containers"][0]["env"]].count("TFQUIVER_SERVICE") == 1
        assert got["restartPolicy"] == "OnFailure"
        assert got["securityContext"]["supplementalGroups"] == [7, 10001]
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a", "b"]}
        affinity = got["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert affinity["nodeSelectorTerms"] == [
            {"matchExpressions": [{"key": "gpu", "operator": "Exists"}, here]},
            {"matchExpressions": [here]},
        ]

    @pytest.mark.parametrize(
        ("before", "job", "step"),
        [
            ({}, None, Step.MAKE),
            ({"state": "Waiting"}, None, Step.MAKE),
            ({"state": "Running", "job": "sweep"}, {"metadata": {}}, Step.SHOW),
            ({}, {"metadata": {}}, Step.SHOW),
            ({"state": "Running", "job": "sweep"}, None, Step.GONE),
            ({"state": "Complete", "job": "sweep"}, None, Step.DONE),
            ({"state": "Failed", "job": "sweep"}, {"metadata": {}}, Step.DONE),
        ],
    )
    def test_a_job_is_run_once(self, before: Any, job: Any, step: Step) -> None:
        assert job_plan.step(before, job) is step

    @pytest.mark.parametrize(
        ("its", "state", "complete", "failed"),
        [
            ({}, "Starting", "False", "False"),
            ({"active": 1}, "Running", "False", "False"),
            ({"conditions": [{"type": "Complete", "status": "True"}]}, "Complete", "True", "False"),
            ({"conditions": [{"type": "Complete", "status": "False"}]}, "Starting", "False", "False"),
            (
                {"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]},
                "Failed", "False", "True",
            ),
        ],
    )  # fmt: skip
    def test_what_the_status_says(self, its: Any, state: str, complete: str, failed: str) -> None:
        status = job_plan.status({"metadata": {"name": "sweep"}, "status": its}, None, {}, 1, AT)
        said = conditions(status)
        assert (status["state"], said["Complete"][0], said["Failed"][0]) == (state, complete, failed)

    @pytest.mark.parametrize(
        ("status", "starts", "reason"),
        [
            (None, "Ready", "DatasetMissing"),
            ({}, "Ready", "DatasetNotReady"),
            ({"conditions": [{"type": "Ready", "status": "True"}], "dataset": "t.d", "digest": "ab"}, "Ready", ""),
            ({"conditions": [{"type": "Ready", "status": "True"}], "dataset": "t.d"}, "Ready", "DatasetNotReady"),
            ({"conditions": [{"type": "Ready", "status": "True"}]}, "Resident", "DatasetNotResident"),
        ],
    )
    def test_it_waits_for_its_data(self, status: Any, starts: str, reason: str) -> None:
        asked = job_wish.parse("sweep", JOB | {"startWhen": starts})
        found = job_plan.readable(asked, None if status is None else {"status": status})
        assert found.reason == reason if isinstance(found, Waiting) else not reason
