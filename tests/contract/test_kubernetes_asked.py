"""How often the operator asks Kubernetes itself, where there are many jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import kopf

from tests.support.aio import on_loop
from tests.support.kube_api import KubeApi
from tfquiver.service.operator.coordinator_calls import CoordinatorCalls
from tfquiver.service.operator.job_manifest import GROUP, VERSION, Surroundings
from tfquiver.service.operator.kubernetes_calls import KubernetesCalls
from tfquiver.service.operator.rounds import Rounds

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "trainer"}]}}
SPEC: dict[str, Any] = {"dataset": "train", "template": TEMPLATE, "ttlSecondsAfterFinished": 60}


@asynccontextmanager
async def asking(api: KubeApi) -> AsyncIterator[KubernetesCalls]:
    kubernetes = KubernetesCalls()
    kubernetes.use(kopf.ConnectionInfo(server=api.url))
    try:
        yield kubernetes
    finally:
        await kubernetes.close()


def asked(api: KubeApi, what: str) -> int:
    return sum(what in path for _, path in api.requests)


@on_loop
async def test_many_jobs_that_begin_together_are_placed_by_one_list_of_machines() -> None:
    """Each had one made: of a thousand machines some megabytes."""
    with KubeApi() as api:
        await asyncio.to_thread(api.create, "nodes", {"metadata": {"name": "m", "labels": {"a": "true"}}})
        async with asking(api) as kubernetes:
            found = await asyncio.gather(*(kubernetes.machines("a=true") for _ in range(20)))
            assert [list(one) for one in found] == [["m"]] * 20
            assert asked(api, "/nodes") == 1
            assert not await kubernetes.machines("a=false") and asked(api, "/nodes") == 2


@on_loop
async def test_a_job_that_is_over_is_not_asked_for_all_the_time() -> None:
    """Of all that had ever been run each was, every five seconds."""
    meta = {"name": "sweep", "namespace": "default", "uid": "u-1", "generation": 1}
    owner = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "TrainingJob", "name": "sweep", "uid": "u-1"}
    job = {"metadata": {"name": "sweep", "ownerReferences": [owner]}, "spec": {"template": TEMPLATE}}
    with KubeApi() as api:
        await asyncio.to_thread(api.create, "jobs", job)
        calls = CoordinatorCalls("localhost:1", "")
        async with asking(api) as kubernetes:
            rounds = Rounds(calls, kubernetes, Surroundings("c:1", 1))
            for _ in range(3):
                assert await rounds.job(meta, SPEC, {"state": "Complete"}) is None
            assert asked(api, "/jobs/sweep") == 2, "it is found, and told when it may go"
            later = {**meta, "generation": 2}
            await rounds.job(later, {**SPEC, "ttlSecondsAfterFinished": 90}, {"state": "Complete"})
            assert asked(api, "/jobs/sweep") == 4
        await calls.close()
        there = await asyncio.to_thread(api.get, "jobs", "sweep")
        assert there is not None and there["spec"]["ttlSecondsAfterFinished"] == 90
