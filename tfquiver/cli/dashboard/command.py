"""`tfquiver dashboard [WHERE]`: serves the page on this machine, and opens it."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import socket
import sys
import webbrowser
from functools import partial
from typing import TYPE_CHECKING, Any

from tfquiver import errors, plain_text
from tfquiver.cli import calls, told_to_stop
from tfquiver.cli.status_asked_watched_explained import status
from tfquiver.cli.status_asked_watched_explained.lookout import Lookout
from tfquiver.cli.status_asked_watched_explained.sparing import Sparing
from tfquiver.cli.status_asked_watched_explained.unfollowed import Unfollowed
from tfquiver.cli.status_tables_and_warnings.money import Prices
from tfquiver.cluster_address.service_name import coordinator_address
from tfquiver.grpc_plumbing import addresses
from tfquiver.grpc_plumbing.kept_channels import KeptChannels
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.roles_and_tokens import own_token

if TYPE_CHECKING:
    from aiohttp import web

    from tfquiver.cli.dashboard.admission import Admission

_ABOUT = """Serves a page that shows a cluster while it changes, and prints its link, with a key in it: whoever has the
link sees what your token lets you see, and can change nothing. For a team: --listen an address that others reach, and
--key_file with a key that stays."""
_SESSIONS = 1000
_LEAST_KEY = 16
_PAST_S = 10.0
_MOST_PORT = 65535
_EVERY_ADDRESS = ("0.0.0.0", "::")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("dashboard", description=_ABOUT)
    calls.add_where(parser, positional=True)
    parser.add_argument(
        "--listen", default="127.0.0.1:0", metavar="HOST:PORT",
        help="port 0: any free one; default: 127.0.0.1:0, for this machine alone",
    )  # fmt: skip
    parser.add_argument("--key_file", default="", metavar="FILE", help="its first line is the key; default: a new one")
    parser.add_argument("--no_browser", action="store_true", help="only print the link")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    where = calls.where(arguments)
    key = _key(arguments.key_file)
    try:
        host, port = addresses.split(arguments.listen)
    except ValueError:
        port = -1
    if not 0 <= port <= _MOST_PORT:
        raise errors.InvalidArgumentError(
            f"--listen: {plain_text.shortened(arguments.listen)} is not host:port, as in localhost:8080"
        )
    token = calls.token(arguments)
    with calls.channel(coordinator_address(where)):
        pass  # it answers: of one that is mistyped, or does not run, there would be a link to nothing
    asyncio.run(_serve(where, token, host, port, key, not arguments.no_browser))
    return 0


def _key(file: str) -> str:
    if not file:
        return secrets.token_urlsafe(24)
    key = own_token.read_token(file, "--key_file")
    if len(key) < _LEAST_KEY or not all(letter.isalnum() or letter in "-_" for letter in key) or not key.isascii():
        raise errors.InvalidArgumentError(
            f"--key_file={file}: a key is {_LEAST_KEY} letters, digits, - and _, or more"
        )  # fmt: skip
    return key


async def _serve(where: str, token: str, host: str, port: int, key: str, browser: bool) -> None:
    from aiohttp import web  # takes a quarter of a second, which no other command should

    from tfquiver.cli.dashboard.admission import SILENT_S, Admission
    from tfquiver.cli.dashboard.feed import Feed
    from tfquiver.cli.dashboard.web_server import Log, application

    kept, prices = KeptChannels(), Prices()
    lookout, unfollowed = Lookout(where, token, kept), Unfollowed()
    sparing = Sparing(
        partial(status.collect, where, token, _SESSIONS, prices, kept=kept, unfollowed=unfollowed), prices
    )
    feed = Feed(lambda: lookout.look(sparing.collect))
    admission = Admission()
    runner = web.AppRunner(
        application(feed, lambda day, jobs, digest: past(where, token, day, jobs, digest), key, admission.asked),
        access_log=None, logger=Log(), shutdown_timeout=1.0, keepalive_timeout=SILENT_S,
        handler_cancellation=True,  # a page that is gone takes no place
    )  # fmt: skip
    await runner.setup()
    stop = asyncio.Event()
    with told_to_stop.told(stop.set):
        listening = None
        try:
            listening = await _listening(admission, runner.server, host, port)
            bound = listening.sockets[0].getsockname()[1]
            shown_host = f"[{host}]" if ":" in host else host
            if host in _EVERY_ADDRESS:
                shown_host = socket.gethostname()
            link = f"http://{shown_host}:{bound}/?key={key}"
            print(f"{link}\nCtrl-C ends it.", flush=True)
            if browser and sys.stdout.isatty() and _has_screen():
                await asyncio.to_thread(webbrowser.open, link)
            await stop.wait()
        finally:
            if listening is not None:
                listening.close()
            await feed.close()
            await runner.cleanup()
            kept.close()


async def _listening(admission: Admission, server: web.Server | None, host: str, port: int) -> asyncio.Server:
    assert server is not None
    try:
        return await asyncio.get_running_loop().create_server(lambda: admission.of(server), host, port)
    except OSError as error:
        why = f"{error.strerror or error}{addresses.below_1024(error, f':{port}')}"
        raise errors.UnavailableError(f"--listen={host}:{port}: {why}") from error


def _has_screen() -> bool:
    """Without one a browser may be opened that takes the terminal."""
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def past(where: str, token: str, day: bool, jobs: list[str], digest_id: str) -> dict[str, Any]:
    """What was; nothing of it (`untold` says why) where the token does not suffice or the coordinator is older."""
    request = coordinator_pb2.GetPastRequest(day=day, jobs=jobs, digest_id=bytes.fromhex(digest_id))
    address = coordinator_address(where)
    with calls.channel(address) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        try:
            reply = calls.ask_if_known(stub.GetPast, request, token, f"coordinator {address}", _PAST_S)
        except errors.PermissionError_:
            return {"untold": "what was is told to admins only"}
    if reply is None:
        return {"untold": "this coordinator is of a version that keeps nothing of what was"}
    told: dict[str, Any] = json.loads(reply.json)
    return told
