"""`tfquiver-dispatcher`: TensorFlow's own tf.data service dispatcher, made to survive kill -9 and lost workers.

What is added to the embedded `DispatchServer`: the QuiverDataset op, a node to get its tickets from, a journal that is
repaired before it is read, and the reaper. TensorFlow's service has neither TLS nor authentication, listens on every
interface and runs any graph it is sent: keep its port inside a private network.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from absl import flags

from tfquiver import durable, errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.log_files_and_lines import log_lines
from tfquiver.node_daemon_and_notes_in_directories.endpoints import running_node
from tfquiver.roles_and_tokens import own_token
from tfquiver.service.common_to_servers import serving
from tfquiver.service.common_to_servers.repeated import RepeatedThread, attempt, running
from tfquiver.service.common_to_servers.tensorflow_servers import known_port, tensorflow_runtime
from tfquiver.service.common_to_servers.tensorflow_servers.known_port import HeldPort
from tfquiver.service.common_to_servers.tensorflow_servers.node_child import NodeChild
from tfquiver.service.common_to_servers.tensorflow_servers.node_place import NodePlace
from tfquiver.service.common_to_servers.tensorflow_servers.tensorflow_runtime import Runtime, StartError
from tfquiver.service.common_to_servers.tensorflow_servers.tf_server import until_stopped
from tfquiver.service.dispatcher import work_dir_id
from tfquiver.service.dispatcher.journal import journal_repair
from tfquiver.service.dispatcher.lost_datasets import LostDatasets
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.reaper import Reaper, Timeouts
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.service_rpc import GrpcServiceRpc
from tfquiver.service.dispatcher.lost_workers_and_leftover_tasks.session_news import CoordinatorNews
from tfquiver.service.dispatcher.worker_reports import INTERVAL_S, WorkerReports
from tfquiver.service.metrics import metrics_flag
from tfquiver.service.metrics.instruments import TOLD_BY
from tfquiver.tensorflow_dispatcher_and_worker_connections.silent_machines import SilentMachines

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_integer("port", 5050, "Port of the tf.data service dispatcher; 0: any free one.", 0, 65535)
    flags.DEFINE_string("work_dir", None, "Directory of the dispatcher's journal; it restarts from it.", required=True)
    flags.DEFINE_string(
        "node_dir", "", "Cache directory of a node that runs on this machine and gives out the tickets."
    )
    flags.DEFINE_string("coordinator", "", "Coordinator (host:port) for a node of its own, which keeps nothing.")
    flags.DEFINE_bool(
        "allow_unauthenticated", False, "Let callers of other machines into a node of its own without a token."
    )
    flags.DEFINE_string("auth_token_file", "", "File whose first line is the cluster's token.")
    flags.DEFINE_integer(
        "worker_timeout_ms",
        10_000,
        "A worker silent for so long is lost; one at whose address nobody listens, after 3 s.",
        100,
    )
    flags.DEFINE_integer(
        "worker_return_timeout_ms",
        60_000,
        "A worker that was lost with records that no other reads again, for it had come to the epoch's end and not "
        "delivered all, is waited for so long, or until another one joins.",
        100,
    )
    flags.DEFINE_integer(
        "unread_task_timeout_ms",
        300_000,
        "A worker that was lost at the end of an epoch and is back may have a task that its trainer has had all of: "
        "when nobody has read from the task's sessions for so long, it is finished; sooner where trainers say that "
        "they wait, as those of tfquiver.distribute do. Another one that takes no more than what is in buffers for "
        "longer, after such a loss, may lack the epoch's last elements. Less than the coordinator's "
        "--ended_session_ms.",
        100,
    )
    flags.DEFINE_list(
        "former_workers",
        [],
        "Workers (host:port, with commas) that were taken away for good: TensorFlow's journal in --work_dir has them "
        "for ever, and `tfquiver status`, doctor and alerts would miss them. One that answers all the same is a "
        "worker as ever.",
    )
    flags.DEFINE_integer("reap_interval_ms", 1000, "Pause between two looks for lost workers.", 10)
    flags.DEFINE_integer("client_timeout_ms", 120_000, "A trainer silent for so long has left its epoch.", 1000)
    flags.DEFINE_integer("job_gc_check_interval_ms", 10_000, "Pause between two looks for abandoned epochs.", 100)
    flags.DEFINE_integer("job_gc_timeout_ms", 60_000, "An epoch that no trainer reads for so long is given up.", 100)
    log_lines.define()
    metrics_flag.define()
    flags.register_validator(
        "coordinator", lambda text: not text or addresses.is_address(text), "must be host:port or unix:/path"
    )
    flags.register_validator(
        "former_workers",
        lambda given: all(map(addresses.is_host_port, given)),
        "must be host:port, with commas between",
    )
    flags.register_multi_flags_validator(
        ["node_dir", "coordinator"],
        lambda values: bool(values["node_dir"]) != bool(values["coordinator"]),
        "give exactly one of --node_dir (a running node) and --coordinator (for a node of its own that keeps nothing)",
    )


@contextmanager
def _sole_owner(work_dir: Path) -> Iterator[None]:
    """Two dispatchers appending to one journal would ruin it."""
    try:
        work_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = durable.lock_file(work_dir / "dispatcher.lock")
    except OSError as error:
        raise errors.InvalidArgumentError(f"--work_dir={work_dir}: {durable.why_not_made(work_dir, error)}") from error
    try:
        if not durable.try_lock(descriptor):
            raise errors.AlreadyRunningError(f"--work_dir={work_dir}: another dispatcher uses it")
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:  # a full disk, or a pipe in its place
            raise errors.from_os_error(error, str(work_dir / "dispatcher.lock")) from error
        yield
    finally:
        os.close(descriptor)


async def serve() -> None:
    work_dir = Path(FLAGS.work_dir).absolute()
    with _sole_owner(work_dir), known_port.held(FLAGS.port) as port:
        journal_repair.repair(work_dir)
        token = own_token.read_token(FLAGS.auth_token_file)
        place, child = NodePlace(), None
        if FLAGS.node_dir:
            place.found(running_node(Path(FLAGS.node_dir)))
        else:
            child = _gateway(work_dir / "node", place)
        # Takes longest: after everything that can refuse quickly, but for the node, which starts meanwhile.
        loading = asyncio.create_task(asyncio.to_thread(tensorflow_runtime.load))
        try:
            if child is not None:
                await child.start()
            runtime = await loading
            place.loaded(runtime.library)
            coordinator = FLAGS.coordinator or place.coordinator()
            news = CoordinatorNews(coordinator, token, port.number)
            await asyncio.to_thread(news.check_token)
            await _dispatch(work_dir, runtime, news, coordinator, token, port)
        finally:
            if child is not None:
                await child.stop()
        serving.leave()


def _gateway(directory: Path, place: NodePlace) -> NodeChild:
    arguments = ["--quota=0", f"--coordinator={FLAGS.coordinator}", "--port=0", "--data_port=0"]
    arguments += [f"--auth_token_file={FLAGS.auth_token_file}"] if FLAGS.auth_token_file else []
    arguments += ["--allow_unauthenticated"] if FLAGS.allow_unauthenticated else []
    return NodeChild(directory, arguments, place.found)


async def _dispatch(
    work_dir: Path, runtime: Runtime, news: CoordinatorNews, coordinator: str, token: str, port: HeldPort
) -> None:
    library = runtime.library
    config = runtime.config.DispatcherConfig(
        port=port.number,
        protocol="grpc",
        work_dir=str(work_dir),
        fault_tolerant_mode=True,
        worker_timeout_ms=FLAGS.worker_timeout_ms,
        client_timeout_ms=FLAGS.client_timeout_ms,
        job_gc_check_interval_ms=FLAGS.job_gc_check_interval_ms,
        job_gc_timeout_ms=FLAGS.job_gc_timeout_ms,
        # Abandoned epochs would else keep their tasks and buffers on every worker for ever.
        gc_dynamic_sharding_jobs=True,
    )
    service = GrpcServiceRpc()
    timeouts = Timeouts(
        worker_s=FLAGS.worker_timeout_ms / 1000,
        return_s=FLAGS.worker_return_timeout_ms / 1000,
        unread_s=FLAGS.unread_task_timeout_ms / 1000,
    )
    reaper = Reaper(work_dir, service, news, timeouts)
    await asyncio.to_thread(attempt, "reaper", reaper.look)
    lost = LostDatasets(work_dir)
    await asyncio.to_thread(attempt, "lost data sets", lost.begin)
    library.set_restoring(True)
    try:
        with serving.default_signals():
            server = runtime.start_dispatcher(config)
    except StartError as error:
        raise errors.UnavailableError(f"the dispatcher does not start from --work_dir={work_dir}: {error}") from error
    finally:
        library.set_restoring(False)
    port.let_go()
    service.dispatcher_started(f"localhost:{port.number}")
    serving.tell_where(work_dir, "dispatcher", f"localhost:{port.number}", coordinator)
    reports = WorkerReports(
        port.number, coordinator, token, lambda: reaper.awaited, lambda: reaper.left, lambda: reaper.held,
        work_dir_id=work_dir_id.read_or_make(work_dir), former=FLAGS.former_workers,
    )  # fmt: skip
    reaping = RepeatedThread("reaper", reaper.step, FLAGS.reap_interval_ms / 1000)
    # A worker that starts beside it waits until the coordinator knows it.
    reporting = RepeatedThread("worker reports", reports.step, INTERVAL_S, at_once=True)
    machines = SilentMachines(FLAGS.worker_timeout_ms / 1000)
    losing = RepeatedThread("lost data sets", lost.look, INTERVAL_S)
    # TensorFlow asks workers without a limit of time, and begins no epoch meanwhile.
    limiting = RepeatedThread("silent machines", lambda: machines.look(service.workers()), INTERVAL_S)
    try:
        async with running(reaping, reporting, limiting, losing):
            await until_stopped(library, "dispatcher", FLAGS.metrics_address, TOLD_BY["dispatcher"], port=port.number)
        await asyncio.to_thread(reports.leave)
    finally:
        for closing in (service, reports, news):
            closing.close()
        server.stop()


define_flags()


def run() -> None:
    os.umask(0o077)  # the journal holds the graphs of all users
    serving.run_server(serve, __doc__ or "")


if __name__ == "__main__":
    run()
