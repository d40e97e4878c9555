"""`tfquiver up`: a whole cluster on this machine, until Ctrl-C."""

from __future__ import annotations

import argparse
from typing import Any

from tfquiver import errors, named_files, plain_text
from tfquiver.cli.up_stop_logs_clear import whole_cluster
from tfquiver.cli.up_stop_logs_clear.last_time import Asked
from tfquiver.cluster_address import service_name
from tfquiver.local_cluster import plan, ports
from tfquiver.node_daemon_and_notes_in_directories.up_file import MOST_WORKERS
from tfquiver.sizes_durations_amounts import sizes

_ABOUT = """A whole cluster on this machine: coordinator, node, dispatcher and workers, until Ctrl-C or SIGTERM.
What is cached, registered and served stays in the directory, and so do the ports, --workers and --quota: `up` again
goes on where the last one was stopped or killed, and says what it takes from it. Flags of servers (--..._flag) are to
be given each time; `up` names those that it had last time and has not now. A server that ends by itself is started
again; one that starts no more ends them all."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("up", description=_ABOUT)
    what = f"cache directory, made when missing; default: what {service_name.VARIABLE} names"
    parser.add_argument("directory", nargs="?", metavar="DIRECTORY", help=what)
    parser.add_argument("--service", default="", metavar="DIRECTORY", help="the same")
    parser.add_argument("--workers", type=_count, metavar="N", help="tf.data service workers; 0: no tf.data service, "
                        "training processes read by themselves; default: as many as last time, else 1")  # fmt: skip
    parser.add_argument("--quota", type=_size, metavar="SIZE", help="most bytes kept, for example 50GiB; default: "
                        "that of last time, of whatever ran there, else 80%% of what is free, as with "
                        "an empty SIZE (--quota=)")  # fmt: skip
    for name, which, usual in (
        ("--port", "coordinator", ports.USUAL.coordinator), ("--dispatcher_port", "dispatcher", ports.USUAL.dispatcher)
    ):  # fmt: skip
        parser.add_argument(name, type=_port, metavar="N", help=f"of the {which}; 0: any; default: the one it had, "
                            f"else {usual}, else any")  # fmt: skip
    parser.add_argument("--prometheus", type=named_files.typed_path, metavar="FILE", help="every server tells its "
                        "metrics, to this machine only; where, is in FILE as Prometheus takes it (file_sd_configs), "
                        "kept true while this runs; to be given each time")  # fmt: skip
    for kind in plan.KINDS:
        parser.add_argument(f"--{kind}_flag", action="append", default=[], metavar="FLAG", help="a further flag of the "
                            f"{kind}, for example --{kind}_flag=--flagfile=FILE; may be repeated")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="say where it listens as one JSON object when it is ready")
    parser.set_defaults(run=_run)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 3 and int(text) <= MOST_WORKERS):
        raise argparse.ArgumentTypeError(f"{plain_text.shortened(text)} is not a number from 0 to {MOST_WORKERS}")
    return int(text)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{plain_text.shortened(text)} is not a port")
    return int(text)


def _size(text: str) -> str:
    if text and not sizes.is_size(text):
        raise argparse.ArgumentTypeError(f"{plain_text.shortened(text)} is not a size: write 500MB or 50GiB")
    if text and (why := sizes.too_little_room(text)):
        raise argparse.ArgumentTypeError(f"{why}, or 0 to keep nothing")
    return text


def _run(arguments: argparse.Namespace) -> int:
    if not (where := service_name.chosen(arguments.directory or arguments.service)):
        raise errors.InvalidArgumentError(
            f"up: which directory? name one for what is cached, here or in {service_name.VARIABLE}; it is made when "
            "missing: tfquiver up ~/tfquiver-cache"
        )
    directory = service_name.directory_of(where)
    if directory is None:
        raise errors.InvalidArgumentError("up: give a directory for what is cached, not an address")
    flags = {kind: getattr(arguments, f"{kind}_flag") for kind in plan.KINDS}
    asked = Asked(arguments.workers, arguments.quota, flags)
    whole_cluster.run(
        directory.absolute(), asked, arguments.port, arguments.dispatcher_port, arguments.json,
        arguments.prometheus and arguments.prometheus.absolute(),
    )  # fmt: skip
    return 0
