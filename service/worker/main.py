"""`tfquiver-worker`: TensorFlow's own tf.data service worker, with the QuiverDataset op and a node beside it.

TensorFlow's service has neither TLS nor authentication, listens on every interface and runs any graph it is sent: keep
its port inside a private network.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from absl import flags, logging

from tfquiver import errors
from tfquiver.grpc_plumbing import addresses
from tfquiver.log_files_and_lines import log_lines
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.node_daemon_and_notes_in_directories.endpoints import running_node
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import NodeEndpoint
from tfquiver.ops.compiling_and_loading import transport
from tfquiver.roles_and_tokens import own_token
from tfquiver.service.common_to_servers import serving
from tfquiver.service.common_to_servers.tensorflow_servers import known_port, tensorflow_runtime
from tfquiver.service.common_to_servers.tensorflow_servers.known_port import HeldPort
from tfquiver.service.common_to_servers.tensorflow_servers.node_child import NodeChild
from tfquiver.service.common_to_servers.tensorflow_servers.node_place import NodePlace
from tfquiver.service.common_to_servers.tensorflow_servers.tensorflow_runtime import Runtime, StartError
from tfquiver.service.common_to_servers.tensorflow_servers.tf_server import until_stopped
from tfquiver.service.metrics import metrics_flag
from tfquiver.service.worker import node_watch, same_cluster, version_reports
from tfquiver.sizes_durations_amounts import sizes

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_integer("port", 5051, "Port of the tf.data service worker; 0: any free one.", 0, 65535)
    flags.DEFINE_string("dispatcher", None, "Address (host:port) of the dispatcher.", required=True)
    flags.DEFINE_string(
        "worker_address",
        "",
        "Address (host:port) under which trainers and the dispatcher reach this worker; %port% is the port it got. "
        "Empty: this machine's address on the way to the dispatcher.",
    )
    flags.DEFINE_string("node_dir", "", "Cache directory of a node that runs on this machine.")
    flags.DEFINE_string("cache_dir", "", "Cache directory for a node of the worker's own.")
    flags.DEFINE_string("coordinator", "", "Coordinator (host:port) of the worker's own node.")
    flags.DEFINE_string("quota", "10GiB", "Bytes the worker's own node may keep, for example 500MB or 10GiB.")
    flags.DEFINE_bool(
        "allow_unauthenticated", False, "Let callers of other machines into a node of its own without a token."
    )
    flags.DEFINE_string(
        "auth_token_file",
        "",
        "File whose first line is the cluster's token; for the worker's own node, and for trainers that get elements.",
    )
    flags.DEFINE_integer(
        "transport_port",
        0,
        "Port at which trainers of other machines get elements (see docs/protocol.md, Element transport); 0: one from "
        "49152 on, none of net.ipv4.ip_local_port_range, made of its address; where somebody has it, any free one.",
        0,
        65535,
    )
    flags.DEFINE_multi_string("node_flag", [], "A further flag for the worker's own node, for example --codec=raw")
    flags.DEFINE_string(
        "cross_trainer_cache_size",
        "10GiB",
        "Memory for each TensorFlow cross-trainer cache, for example 500MB or 10GiB.",
    )
    flags.DEFINE_integer("heartbeat_interval_ms", 1000, "Pause between two heartbeats to the dispatcher.", 100, 60_000)
    flags.DEFINE_integer(
        "dispatcher_timeout_ms", 3_600_000, "How long to try again while the dispatcher is away.", 1000
    )
    flags.DEFINE_float(
        "connect_timeout_s",
        30.0,
        "How long to wait at the start for the dispatcher, and then for the node of --node_dir.",
        0.1,
    )
    flags.DEFINE_float(
        "node_away_s",
        40.0,
        "When no node has answered for so long, the worker ends with an error, so that others read its part of the "
        "epoch; less than the trainers' reconnect_timeout_s (60), after which they fail.",
        1.0,
    )
    log_lines.define()
    metrics_flag.define()
    flags.register_validator("dispatcher", addresses.is_host_port, "must be host:port")
    flags.register_validator(
        "worker_address",
        lambda text: not text or addresses.is_host_port(text.replace("%port%", "1")),
        "must be host:port or host:%port%",
    )
    flags.register_validator(
        "coordinator", lambda text: not text or addresses.is_address(text), "must be host:port or unix:/path"
    )
    flags.register_validator(
        "cross_trainer_cache_size",
        lambda text: sizes.is_size(text) and sizes.parse_bytes(text) > 0,
        "must be a size, for example 10GiB",
    )
    flags.register_validator("quota", sizes.is_size, "must be a size, for example 10GiB")
    flags.register_multi_flags_validator(
        ["node_dir", "cache_dir", "coordinator"],
        lambda values: bool(values["node_dir"]) != bool(values["cache_dir"] and values["coordinator"]),
        "give either --node_dir (a running node), or --cache_dir and --coordinator for a node of its own",
    )


async def serve() -> None:
    with known_port.held(FLAGS.port) as port:
        await _serve_at(port)


async def _serve_at(port: HeldPort) -> None:
    place = NodePlace()
    child = None if FLAGS.node_dir else _own_node(place)
    if child is not None:
        await child.start()  # before the dispatcher is waited for: flags that cannot be right are refused at once
    try:
        await _dispatcher_answers(FLAGS.dispatcher, FLAGS.connect_timeout_s)
        if FLAGS.node_dir:
            place.found(await _node_answers(Path(FLAGS.node_dir), FLAGS.connect_timeout_s))
        token = own_token.read_token(FLAGS.auth_token_file)
        await same_cluster.check(FLAGS.dispatcher, place.coordinator(), own_token.of_user(FLAGS.auth_token_file))
        runtime = tensorflow_runtime.load()  # takes longest: after everything that can refuse quickly
        place.loaded(runtime.library)
        await _work(runtime, token, place, child, port)
    finally:
        if child is not None:
            await child.stop()
    serving.leave()


def _own_node(place: NodePlace) -> NodeChild:
    arguments = [f"--quota={FLAGS.quota}", f"--coordinator={FLAGS.coordinator}", *FLAGS.node_flag]
    arguments += [f"--auth_token_file={FLAGS.auth_token_file}"] if FLAGS.auth_token_file else []
    arguments += ["--allow_unauthenticated"] if FLAGS.allow_unauthenticated else []
    return NodeChild(Path(FLAGS.cache_dir).absolute(), arguments, place.found)


async def _dispatcher_answers(address: str, deadline_s: float) -> None:
    """TensorFlow's `start()` would wait for the dispatcher for ever, with the interpreter's lock held."""
    host, port = addresses.split(address)
    pause_s = 0.05
    try:
        async with asyncio.timeout(deadline_s):
            while True:
                try:
                    _, writer = await asyncio.open_connection(host, port)
                except OSError as error:
                    every_n_seconds(logging.WARNING, "dispatcher %s: %s; trying again", 5, address, error)
                    await asyncio.sleep(pause_s)
                    pause_s = min(pause_s * 2, 1.0)
                    continue
                writer.close()
                await writer.wait_closed()
                return
    except TimeoutError as error:
        raise errors.UnavailableError(
            f"--dispatcher={address} has not answered for {deadline_s:g} s; is tfquiver-dispatcher running there?"
        ) from error


async def _node_answers(directory: Path, deadline_s: float) -> NodeEndpoint:
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + deadline_s
    while True:
        try:
            return await asyncio.to_thread(running_node, directory)
        except errors.NotFoundError as error:
            if loop.time() >= give_up_at:
                raise
            every_n_seconds(logging.WARNING, "%s; trying again", 5, error)
            await asyncio.sleep(0.2)


def _worker_address() -> str:
    """With %port% in it. `_dispatcher_answers` has been there before: there is a way."""
    if FLAGS.worker_address:
        return str(FLAGS.worker_address)
    host, port = addresses.split(FLAGS.dispatcher)
    found = addresses.towards(host, port)
    # The dispatcher's own machine may know itself as 127.0.1.1: others know it by the name that was given.
    own = host if addresses.is_loopback(found) else found
    return f"[{own}]:%port%" if ":" in own else f"{own}:%port%"


async def _leave_without_node(place: NodePlace, child: NodeChild | None) -> None:
    """As if killed: trainers then wait for the dispatcher to give the part of this worker to others. An error of its
    iterators would be the end of their epoch."""
    why = await node_watch.stays_away(place.socket, FLAGS.node_away_s)
    logging.error(
        "no node has answered at %s for %g s (%s): this worker ends, so that others read its part",
        place.socket(), FLAGS.node_away_s, why,
    )  # fmt: skip
    if child is not None:
        child.kill()
    serving.leave(code=1)


async def _work(runtime: Runtime, token: str, place: NodePlace, child: NodeChild | None, port: HeldPort) -> None:
    address = _worker_address().replace("%port%", str(port.number))
    library = runtime.library
    elements = transport.beside(library.path, runtime.version)
    if elements is not None:
        elements.add_token(token)
    config = runtime.config.WorkerConfig(
        port=port.number,
        protocol="grpc",
        dispatcher_address=FLAGS.dispatcher,
        worker_address=address,
        heartbeat_interval_ms=FLAGS.heartbeat_interval_ms,
        dispatcher_timeout_ms=FLAGS.dispatcher_timeout_ms,
        cross_trainer_cache_size_bytes=sizes.parse_bytes(FLAGS.cross_trainer_cache_size),
        data_transfer_protocol=transport.PROTOCOL if elements is not None else "",
        data_transfer_address=f"{address.rpartition(':')[0]}:%dts_port%",
        data_transfer_port=FLAGS.transport_port,
    )
    library.set_label(address)
    try:
        with serving.default_signals():
            server = runtime.start_worker(config)
    except StartError as error:
        raise errors.UnavailableError(f"the worker does not start on port {port.number}: {error}") from error
    port.let_go()
    watch = asyncio.create_task(_leave_without_node(place, child), name="node watch")
    user = own_token.of_user(FLAGS.auth_token_file)
    telling = asyncio.create_task(version_reports.go_on(place.coordinator, address, user), name="version")
    try:
        await until_stopped(library, "worker", FLAGS.metrics_address, port=port.number, address=address)
    finally:
        watch.cancel()
        telling.cancel()
        if elements is not None:
            elements.close()  # its threads would go on asking a server that is no more
        server.stop()


define_flags()


def run() -> None:
    serving.run_server(serve, __doc__ or "")


if __name__ == "__main__":
    run()
