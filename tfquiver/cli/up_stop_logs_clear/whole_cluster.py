"""One cluster from its start to its end: holds the directory, says when it is ready, runs until it is told to stop."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import tfquiver
from tfquiver import errors, named_files
from tfquiver.cli import told_to_stop
from tfquiver.cli.up_stop_logs_clear import last_time
from tfquiver.cli.up_stop_logs_clear.last_time import Asked
from tfquiver.cluster_address import running, service_name
from tfquiver.local_cluster import hold, left_out, ports, scrape_targets
from tfquiver.local_cluster.plan import Wish
from tfquiver.local_cluster.supervisor import Supervisor
from tfquiver.node_daemon_and_notes_in_directories import cluster_file, up_file
from tfquiver.node_daemon_and_notes_in_directories.up_file import Ports
from tfquiver.roles_and_tokens import own_token
from tfquiver.service.node import caches_on_this_disk


def run(
    directory: Path, asked: Asked, port: int | None, dispatcher_port: int | None, as_json: bool,
    targets: Path | None = None,
) -> None:  # fmt: skip
    """Until SIGINT, SIGTERM or SIGHUP.

    Args:
      asked: what is not given is as last time.
      port, dispatcher_port: of the coordinator and the dispatcher; 0: any; None: those of last time, or the usual ones.
      as_json: says where it listens as one JSON object, not in sentences.
      targets: the file in which Prometheus is told of the servers' metrics; None: nobody is.

    Raises:
      AlreadyRunningError, InvalidArgumentError: as `hold.held` does.
      The typed error of a failed write: of `targets`.
      UnavailableError: a port that was asked for is taken; a server does not start, or not any more; the directory was
        deleted.
    """
    with hold.held(directory, _say) as is_ours:
        wish, lines = last_time.wish(directory, asked, given := up_file.read_given(directory))
        for line in lines:
            _say(line)
        last = up_file.read(directory)
        with suppress(OSError):  # what was away of an `up` that was killed is not this one's
            if up_file.away(directory):
                up_file.write(directory, last, given)
        chosen = ports.choose(port, dispatcher_port, last, wish.workers)
        asked_dispatcher = dispatcher_port if wish.workers else 0
        for line in ports.passed_over(port, asked_dispatcher, last, chosen, running.listening_on):
            _say(line)
        if targets:
            named_files.check_output(f"--prometheus={targets}", targets)
            scrape_targets.write(targets, directory, {})
            wish = dataclasses.replace(wish, with_metrics=True)
        asyncio.run(_serve(wish, chosen, as_json, is_ours, left_out.dispatcher(wish, last, given), targets))


async def _serve(
    wish: Wish, chosen: Ports, as_json: bool, is_ours: Callable[[], bool], gone: str, targets: Path | None
) -> None:
    """`gone`: the address of a dispatcher that was here, and that this cluster is to have no more."""
    stop = asyncio.Event()
    progress = (lambda line: None) if as_json else _say

    def begun(got: Ports) -> None:
        """The node will say whose it is: by then it stands beside that this is this `up`'s, who may not get further."""
        last = up_file.read(wish.directory)
        if got.coordinator == last.coordinator:
            return
        try:
            if cluster_file.read(wish.directory) == f"localhost:{last.coordinator}":
                cluster_file.write(wish.directory, "")
            now = dataclasses.replace(last, coordinator=got.coordinator)
            up_file.write(wish.directory, now, up_file.read_given(wish.directory))
        except (OSError, errors.TfquiverError) as error:
            _say(f"{up_file.UP_FILE} cannot be written: {error}")

    def tell_prometheus(metrics: Mapping[str, str]) -> None:
        try:
            if targets:
                scrape_targets.write(targets, wish.directory, metrics)
        except errors.TfquiverError as error:
            _say(f"Prometheus may look for metrics where there are none: {error}")

    def changed() -> None:
        """Whoever asks for the status reads what is away, and that it comes back."""
        try:
            up_file.write(wish.directory, supervisor.ports, last_time.given(wish), supervisor.away)
        except OSError as error:
            _say(_unwritten(supervisor.ports, error))
        tell_prometheus(supervisor.metrics)

    supervisor = Supervisor(
        wish, chosen, wish.directory / "log", _environment(), _say, is_ours, progress, begun, changed
    )

    def ready() -> None:
        if gone:
            left_out.tell(f"localhost:{supervisor.ports.coordinator}", gone)
        try:
            up_file.write(wish.directory, supervisor.ports, last_time.given(wish))
        except OSError as error:
            _say(_unwritten(supervisor.ports, error))
        tell_prometheus(supervisor.metrics)
        if as_json:
            print(json.dumps(_where(wish, supervisor.ports) | {"metrics": supervisor.metrics}), flush=True)
        else:
            print(_welcome(wish, supervisor.ports, targets), flush=True)
        telling.append(asyncio.get_running_loop().create_task(_tell_of_others(wish.directory)))

    telling = list[asyncio.Task[None]]()
    with told_to_stop.told(stop.set):
        if not as_json:
            _say(f"starting in {wish.directory} ...")
        try:
            await supervisor.run(stop, ready)
        finally:
            for task in telling:
                task.cancel()
            tell_prometheus({})
            _say("everything is stopped")


async def _tell_of_others(directory: Path) -> None:
    """That not all caches of this user find room on its disk."""
    with suppress(errors.TfquiverError):
        if said := await caches_on_this_disk.warning(directory, own_token.of_user("")):
            _say(said)


def _unwritten(got: Ports, error: OSError) -> str:
    where = f", its dispatcher is found as localhost:{got.dispatcher} only" if got.dispatcher else ""
    return (
        f"{up_file.UP_FILE} cannot be written ({error.strerror}): `tfquiver status` does not say which servers are "
        f"away{where}, and the next `up` may take other ports"
    )


def _environment() -> dict[str, str]:
    """The servers run this very tfquiver, wherever they start."""
    root = str(Path(tfquiver.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path}


def _say(line: str) -> None:
    """The servers run on where nobody hears it: the terminal is closed, who read it has left, the disk is full."""
    with suppress(OSError):
        print(f"tfquiver up: {line}", file=sys.stderr, flush=True)


def _where(wish: Wish, got: Ports) -> dict[str, Any]:
    dispatcher = f"localhost:{got.dispatcher}" if wish.workers else ""
    workers = [f"localhost:{port}" for port in got.workers[: wish.workers]]
    return {
        "server": "up", "pid": os.getpid(), "cache_dir": str(wish.directory),
        "coordinator": f"localhost:{got.coordinator}", "dispatcher": dispatcher, "workers": workers,
    }  # fmt: skip


def _welcome(wish: Wish, got: Ports, targets: Path | None) -> str:
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
            f"    data = data.apply(tfquiver.distribute({at!r}))",
            "",
            "TensorFlow's dispatcher and workers listen on every address of this machine and ask nobody who they are:",
            "for private networks only (--workers=0 leaves them out).",
        ]
    return "\n".join(
        [
            *lines,
            "",
            *([f"Metrics: Prometheus finds them by file_sd_configs: [{{files: [{targets}]}}]."] if targets else []),
            f"For tfquiver status, warm, clear and stop elsewhere: export {service_name.VARIABLE}={shlex.quote(at)}",
            f"Logs: {at}/log. Ctrl-C stops it all; what is cached stays.",
        ]
    )
