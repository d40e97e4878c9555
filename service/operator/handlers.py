"""kopf's handlers: which objects are looked at, and when. Thin: a round does the rest."""

from __future__ import annotations

import logging
from typing import Any

import kopf

from tfquiver import errors
from tfquiver.log_files_and_lines.logs import about
from tfquiver.service.operator.job_manifest import GROUP, VERSION
from tfquiver.service.operator.kubernetes_calls import KubernetesCalls
from tfquiver.service.operator.rounds import Rounds

FINALIZER = f"{GROUP}/operator"
_AGAIN_S = 10.0
_ROUND_ENDS_S = 1.0


class NothingHandled(kopf.AnnotationsDiffBaseStorage):
    """No handler asks what has changed; kopf would keep the whole spec for it once more, in annotations, which have 256
    KiB in all: sources may have as much."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence({})


def registry(rounds: Rounds, kubernetes: KubernetesCalls, api: str, every_s: float) -> kopf.OperatorRegistry:
    """Args:
    api: Kubernetes' address, which asks nobody who calls (kubectl proxy, a test); "": as in a pod, or by kubeconfig.
    every_s: pause between two looks at an object.
    """
    made = kopf.OperatorRegistry()

    @kopf.on.login(registry=made)
    async def login(**arguments: Any) -> kopf.ConnectionInfo | None:
        found = kopf.ConnectionInfo(server=api) if api else None
        found = found or kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)
        if found is not None:
            kubernetes.use(found)
        return found

    @kopf.on.startup(registry=made)
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.persistence.finalizer = FINALIZER
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
        settings.persistence.diffbase_storage = NothingHandled(prefix=GROUP)
        logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # each look at each object is a line of it
        settings.posting.enabled = False  # the status says it
        settings.watching.server_timeout = 240
        settings.watching.client_timeout = 300  # one that says nothing for so long is gone
        settings.networking.request_timeout = 30
        # An object that is deleted while a round looks at it is looked at again so soon; by default, after a minute.
        settings.background.cancellation_polling = _ROUND_ENDS_S

    @kopf.timer(GROUP, VERSION, "datasets", interval=every_s, backoff=_AGAIN_S, registry=made)
    async def dataset(meta: kopf.Meta, spec: Any, status: Any, patch: kopf.Patch, **_: Any) -> None:
        _put(patch, await rounds.dataset(meta, dict(spec), dict(status)), status)

    @kopf.on.delete(GROUP, VERSION, "datasets", registry=made)
    async def dataset_goes(meta: kopf.Meta, spec: Any, status: Any, patch: kopf.Patch, **_: Any) -> None:
        try:
            await rounds.dataset_goes(meta, dict(spec), dict(status))
        except errors.TfquiverError as error:
            logging.warning(
                "dataset %s/%s cannot go yet: %s",
                meta["namespace"],
                meta["name"],
                error,
                extra=about(dataset=meta["name"]),
            )
            patch.status["message"] = f"cannot go yet: {error}"
            raise kopf.TemporaryError(str(error), delay=_AGAIN_S) from error

    @kopf.timer(GROUP, VERSION, "trainingjobs", interval=every_s, backoff=_AGAIN_S, registry=made)
    async def job(meta: kopf.Meta, spec: Any, status: Any, patch: kopf.Patch, **_: Any) -> None:
        if (now := await rounds.job(meta, dict(spec), dict(status))) is not None:
            _put(patch, now, status)

    return made


def _put(patch: kopf.Patch, now: dict[str, Any], before: Any) -> None:
    """Only what is another than before: nothing is written where there is nothing new."""
    for name, value in now.items():
        if before.get(name) != value:
            patch.status[name] = value
