"""`tfquiver up`: a whole cluster on this machine, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import tfquiver
from tfquiver import errors, sizes
from tfquiver.host import service_name, up_file
from tfquiver.host.up_file import Ports
from tfquiver.local_cluster import hold, plan, ports
from tfquiver.local_cluster.plan import Wish
from tfquiver.local_cluster.supervisor import Supervisor
from tfquiver.trust import plain_text

_MOST_WORKERS = 64
_ABOUT = """A whole cluster on this machine: coordinator, node, dispatcher and workers, until Ctrl-C or SIGTERM.
What is cached, registered and served stays in the directory, and so do the ports: `up` again goes on where the last
one was stopped or killed. A server that ends by itself is started again; one that starts no more ends them all."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("up", help="a whole cluster on this machine, until Ctrl-C", description=_ABOUT)
    what = f"cache directory, made when missing; default: what {service_name.VARIABLE} names"
    parser.add_argument("directory", nargs="?", metavar="DIRECTORY", help=what)
    parser.add_argument("--service", default="", metavar="DIRECTORY", help="the same")
    parser.add_argument("--workers", type=_count, default=1, metavar="N", help="tf.data service workers; 0: no tf.data "
                        "service, training processes read by themselves; default: 1")  # fmt: skip
    parser.add_argument("--quota", type=_size, default="", metavar="SIZE", help="most bytes kept, for example 50GiB; "
                        "default: 80%% of what is free")  # fmt: skip
    for name, which, usual in (
        ("--port", "coordinator", ports.USUAL.coordinator), ("--dispatcher_port", "dispatcher", ports.USUAL.dispatcher)
    ):  # fmt: skip
        parser.add_argument(name, type=_port, metavar="N", help=f"of the {which}; 0: any; default: the one it had, "
                            f"else {usual}, else any")  # fmt: skip
    for kind in plan.KINDS:
        parser.add_argument(f"--{kind}_flag", action="append", default=[], metavar="FLAG", help="a further flag of the "
                            f"{kind}, for example --{kind}_flag=--flagfile=FILE; may be repeated")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="say where it listens as one JSON object when it is ready")
    parser.set_defaults(run=_run)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 3 and int(text) <= _MOST_WORKERS):
        raise argparse.ArgumentTypeError(f"{plain_text.shortened(text)} is not a number from 0 to {_MOST_WORKERS}")
    return int(text)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{plain_text.shortened(text)} is not a port")
    return int(text)


def _size(text: str) -> str:
    if text and not sizes.is_size(text):
        raise argparse.ArgumentTypeError(f"{plain_text.shortened(text)} is not a size: write 500MB or 50GiB")
    return text


def _run(arguments: argparse.Namespace) -> int:
    directory = service_name.directory_of(service_name.required(arguments.directory or arguments.service))
    if directory is None:
        raise errors.InvalidArgumentError("up: give a directory for what is cached, not an address")
    flags = {kind: getattr(arguments, f"{kind}_flag") for kind in plan.KINDS}
    wish = Wish(directory.absolute(), arguments.workers, arguments.quota, flags)
    with hold.held(wish.directory, _say):
        chosen = ports.choose(arguments.port, arguments.dispatcher_port, up_file.read(wish.directory))
        asyncio.run(_serve(wish, chosen, arguments.json))
    return 0


async def _serve(wish: Wish, chosen: Ports, as_json: bool) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            loop.add_signal_handler(number, stop.set)
    supervisor = Supervisor(wish, chosen, wish.directory / "log", _environment(), _say)

    def ready() -> None:
        try:
            up_file.write(wish.directory, supervisor.ports)
        except OSError as error:
            _say(f"the ports cannot be written down, the next `up` may take others: {error.strerror}")
        if as_json:
            print(json.dumps(_where(wish, supervisor.ports)), flush=True)
        else:
            print(_welcome(wish, supervisor.ports), flush=True)

    if not as_json:
        _say(f"starting in {wish.directory} ...")
    try:
        await supervisor.run(stop, ready)
    finally:
        _say("everything is stopped")


def _environment() -> dict[str, str]:
    """The servers run this very tfquiver, wherever they start."""
    root = str(Path(tfquiver.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path}


def _say(line: str) -> None:
    print(f"tfquiver up: {line}", file=sys.stderr, flush=True)


def _where(wish: Wish, got: Ports) -> dict[str, Any]:
    dispatcher = f"localhost:{got.dispatcher}" if wish.workers else ""
    workers = [f"localhost:{port}" for port in got.workers[: wish.workers]]
    return {
        "server": "up", "pid": os.getpid(), "cache_dir": str(wish.directory),
        "coordinator": f"localhost:{got.coordinator}", "dispatcher": dispatcher, "workers": workers,
    }  # fmt: skip


def _welcome(wish: Wish, got: Ports) -> str:
    """What to put into one's own code."""
    at, many = str(wish.directory), "s" if wish.workers != 1 else ""
    servers = f"coordinator localhost:{got.coordinator}, node"
    if wish.workers:
        servers += f", dispatcher localhost:{got.dispatcher}, {wish.workers} worker{many}"
    lines = [
        f"Ready: {servers}. In your code:",
        "",
        f"    data = tfquiver.dataset(FILES, cache_dir={at!r})",
    ]
    if wish.workers:
        lines += [
            "",
            f"and, where the worker{many} shall read and preprocess (put it behind your maps):",
            "",
            f'    data = data.apply(tfquiver.distribute("localhost:{got.dispatcher}"))',
            "",
            "TensorFlow's dispatcher and workers listen on every address of this machine and ask nobody who they are:",
            "for private networks only (--workers=0 leaves them out).",
        ]
    return "\n".join(
        [
            *lines,
            "",
            f"For tfquiver status, warm, clear and stop elsewhere: export {service_name.VARIABLE}={shlex.quote(at)}",
            f"Logs: {at}/log. Ctrl-C stops it all; what is cached stays.",
        ]
    )
