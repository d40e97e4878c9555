"""`tfquiver-operator`: makes the Datasets and TrainingJobs of a Kubernetes cluster so. Needs tfquiver[operator]."""

from __future__ import annotations

import asyncio
import contextlib
import errno

import kopf
from absl import flags, logging

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.log_files_and_lines import log_lines
from tfquiver.roles_and_tokens import own_token
from tfquiver.service.common_to_servers import serving
from tfquiver.service.operator import handlers
from tfquiver.service.operator.coordinator_calls import CoordinatorCalls
from tfquiver.service.operator.job_manifest import Surroundings
from tfquiver.service.operator.kubernetes_calls import KubernetesCalls
from tfquiver.service.operator.rounds import Rounds

log_lines.define()
_COORDINATOR = flags.DEFINE_string("coordinator", None, "Coordinator (host:port).", required=True)
_JOBS_COORDINATOR = flags.DEFINE_string(
    "jobs_coordinator", "", "The coordinator's address (host:port) as training pods reach it. Empty: as --coordinator."
)
_TOKEN_FILE = flags.DEFINE_string("auth_token_file", "", "File whose first line is an admin's token.")
_NAMESPACES = flags.DEFINE_list("namespaces", [], "Only objects in these namespaces; empty: in all.")
_KUBERNETES_API = flags.DEFINE_string(
    "kubernetes_api", "", "Kubernetes' address where it asks for nothing, as of kubectl proxy. Empty: as pods find it."
)
_READER_GROUP = flags.DEFINE_integer(
    "reader_group", 10001, "The nodes' --reader_group, in which training pods are put.", 0, (1 << 32) - 2
)
_EVERY_S = flags.DEFINE_float("every_s", 5.0, "Pause between two looks at an object.", 0.1, 3600.0)
_EVERYWHERE = "0.0.0.0"
_PORT = flags.DEFINE_integer("port", 8080, "Port of /healthz on every address; 0: none.", 0, 65535)

for _flag, _valid in (
    ("coordinator", addresses.is_address),
    ("jobs_coordinator", lambda text: not text or addresses.is_address(text)),
):
    flags.register_validator(_flag, _valid, "must be host:port or unix:/path")
flags.register_validator(
    "kubernetes_api", lambda text: not text or text.startswith(("http://", "https://")), "must be a URL"
)


def _check_port(port: int) -> None:
    """Kopf finds out while it looks at objects already. Raises UnavailableError: it is taken, or not this user's."""
    where = addresses.joined(_EVERYWHERE, port)
    try:
        addresses.free_port([_EVERYWHERE], port)
    except OSError as error:
        taken = "another program has that port: stop it, or give another one (0: none)"
        why = taken if error.errno == errno.EADDRINUSE else f"{error}{addresses.below_1024(error, where)}"
        raise errors.UnavailableError(f"--port: cannot listen on {where}: {why}") from error


async def _serve() -> None:
    if _PORT.value:
        _check_port(_PORT.value)
    stop = serving.stop_event()
    token = own_token.read_token(_TOKEN_FILE.value)
    kubernetes = KubernetesCalls()
    coordinator = CoordinatorCalls(_COORDINATOR.value, token)
    around = Surroundings(_JOBS_COORDINATOR.value or _COORDINATOR.value, _READER_GROUP.value)
    registry = handlers.registry(
        Rounds(coordinator, kubernetes, around), kubernetes, _KUBERNETES_API.value, _EVERY_S.value
    )
    ready = asyncio.Event()
    running = asyncio.create_task(
        kopf.operator(
            registry=registry,
            standalone=True,
            clusterwide=not _NAMESPACES.value,
            namespaces=_NAMESPACES.value,
            liveness_endpoint=f"http://{_EVERYWHERE}:{_PORT.value}/healthz" if _PORT.value else None,
            ready_flag=ready,
            stop_flag=stop,
        )
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(coordinator.close)
        stack.push_async_callback(kubernetes.close)
        readying = asyncio.create_task(ready.wait())
        await asyncio.wait([running, readying], return_when=asyncio.FIRST_COMPLETED)
        readying.cancel()
        if not running.done():
            serving.announce("operator", port=_PORT.value)
        try:
            await running
        except Exception as error:
            raise errors.UnavailableError(f"the operator ended: {type(error).__name__}: {error}") from error
        logging.info("stopping")


def run() -> None:
    serving.run_server(_serve, __doc__ or "")


if __name__ == "__main__":
    run()
