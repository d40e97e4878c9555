"""`tfquiver-scheduler-extender`: has Kubernetes' scheduler prefer machines that hold a pod's data, or have it near.

Needs tfquiver[operator]. It asks nobody for a token, and tells only where data is: keep its port inside the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib

from absl import flags, logging
from aiohttp import web

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.log_files_and_lines import log_lines
from tfquiver.roles_and_tokens import own_token
from tfquiver.service.common_to_servers import serving
from tfquiver.service.extender.advice import Advice
from tfquiver.service.extender.server import application

log_lines.define()
_COORDINATOR = flags.DEFINE_string("coordinator", None, "Coordinator (host:port).", required=True)
_TOKEN_FILE = flags.DEFINE_string("auth_token_file", "", "File whose first line is an admin's token.")
_BIND_HOST = flags.DEFINE_string("bind_host", "127.0.0.1", "Address to listen on.")
_PORT = flags.DEFINE_integer("port", 5060, "TCP port to listen on; 0: any free one.", 0, 65535)
_WITHIN_S = flags.DEFINE_float(
    "within_s",
    1.0,
    "The coordinator must answer so soon, or all machines are alike; less than the scheduler's httpTimeout.",
    0.01,
    60.0,
)

flags.register_validator("coordinator", addresses.is_address, "must be host:port or unix:/path")
flags.register_validator("bind_host", bool, "must name a host or an address")


async def _serve() -> None:
    stop = serving.stop_event()
    advice = Advice(
        _COORDINATOR.value, own_token.read_token(_TOKEN_FILE.value), _WITHIN_S.value, asyncio.get_running_loop().time
    )
    runner = web.AppRunner(application(advice.scores), access_log=None, shutdown_timeout=2.0)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(advice.close)
        stack.push_async_callback(runner.cleanup)
        await runner.setup()
        try:
            await web.TCPSite(runner, _BIND_HOST.value, _PORT.value).start()
        except OSError as error:
            where = addresses.joined(_BIND_HOST.value, _PORT.value)
            raise errors.UnavailableError(f"--bind_host, --port: cannot listen on {where}: {error.strerror}") from error
        serving.announce("extender", port=runner.addresses[0][1])
        await stop.wait()
        logging.info("stopping")


def run() -> None:
    serving.run_server(_serve, __doc__ or "")


if __name__ == "__main__":
    run()
