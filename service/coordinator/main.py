"""tfquiver-coordinator: sessions, membership and the registry of data sets for many nodes."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from absl import flags, logging

from tfquiver import errors
from tfquiver.log_files_and_lines import log_lines
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.node_daemon_and_notes_in_directories import server_file
from tfquiver.roles_and_tokens import own_token
from tfquiver.roles_and_tokens.tokens import SharedToken, TokenFile
from tfquiver.service.common_to_servers import full_collections, serving, slow_start
from tfquiver.service.common_to_servers.last_resort import LastResort
from tfquiver.service.coordinator.commit_log.work_dir import was_held
from tfquiver.service.coordinator.grpc_calls.callers import Tokens
from tfquiver.service.coordinator.named_dataset_lifecycle.room_for_pins_and_when_full.room import WHEN_FULL
from tfquiver.service.coordinator.options import CoordinatorOptions
from tfquiver.service.coordinator.server import CoordinatorServer
from tfquiver.service.metrics import coordinator_metrics as metrics
from tfquiver.service.metrics import exposition, metrics_flag
from tfquiver.service.metrics.instruments import TOLD_BY
from tfquiver.sizes_durations_amounts import sizes

_DEFAULTS = CoordinatorOptions()
_STANDBY_LOOK_S = 0.2
_STOP_S = 3.0  # a log that takes longer is on a disk that hangs: what is not in it was promised to nobody

_PORT = flags.DEFINE_integer(
    "port", 5040, "TCP port to listen on; 0: any free one, printed in the ready line.", lower_bound=0, upper_bound=65535
)
_BIND_HOST = flags.DEFINE_string(
    "bind_host", "127.0.0.1", "Address to listen on. 0.0.0.0 or [::]: all; then give --tokens_file too."
)
_WORK_DIR = flags.DEFINE_string(
    "work_dir", "", "Directory for the commit log and the digests; made when missing. One coordinator a directory."
)
_STANDBY = flags.DEFINE_bool(
    "standby",
    False,
    "Where another coordinator holds --work_dir, wait until it ends, and go on in its place; nothing is listened on "
    "but --metrics_address before, and instead of the ready line one is printed that has stands_by, and no port. Nodes "
    "and clients name both: --coordinator=a:5040,b:5040.",
)
_NODE_TIMEOUT_MS = flags.DEFINE_integer(
    "node_timeout_ms",
    int(_DEFAULTS.node_timeout_s * 1000),
    "A node not heard of for so long is lost: its readers' leases go to others. Also how long, after a restart of the "
    "coordinator or of a node, its readers have to come back.",
    lower_bound=100,
    upper_bound=3_600_000,
)
_SESSION_TIMEOUT_MS = flags.DEFINE_integer(
    "session_timeout_ms",
    int(_DEFAULTS.session_idle_s * 1000),
    "A session that is incomplete and has no reader for so long is forgotten.",
    lower_bound=1000,
)
_ENDED_SESSION_MS = flags.DEFINE_integer(
    "ended_session_ms",
    int(_DEFAULTS.session_ended_s * 1000),
    "An ended session is remembered for so long, for readers and tickets that come late.",
    lower_bound=1000,
)
_CHUNK_TIMEOUT_MS = flags.DEFINE_integer(
    "chunk_timeout_ms",
    int(_DEFAULTS.chunk_timeout_s * 1000),
    "Where a data set is cached by chunks: how long after the first job has finished a chunk those that still read it "
    "may keep it from being evicted, and how long a job may wait for what only it needs.",
    lower_bound=100,
    upper_bound=86_400_000,
)
_POLICY = flags.DEFINE_string(
    "policy",
    _DEFAULTS.policy,
    "Decides how much cache each data set gets that nobody has set, and what jobs may read from the store: benefit, "
    "quiver, silod_greedy, max_min_fair (needs tfquiver[solver]), static, lru, none, or one that another package "
    "registers as tfquiver.policies; off: nobody does. What was chosen with `tfquiver policy` holds until another one "
    "is given here than at that time.",
)
_STORE_BYTES_PER_S = flags.DEFINE_string(
    "store_bytes_per_s",
    "",
    "What the object store gives all nodes together, a second, for example 200MB or 1GiB: policies that share out "
    "bandwidth (silod_greedy, max_min_fair) do so within it, and nobody is probed where too little of it is left. "
    "Empty or 0: nobody knows, and nothing is limited.",
)
_WHEN_FULL = flags.DEFINE_enum(
    "when_full",
    _DEFAULTS.when_full,
    WHEN_FULL,
    "When somebody prefetches a data set that has a name, and it does not fit. partial: what fits is read; manual: "
    "refused, with what to evict and what that would free; dataset_lru: others that have names go whole, the one that "
    "was read longest ago first, never one that is pinned or read.",
)
_MAX_SESSIONS = flags.DEFINE_integer(
    "max_sessions", _DEFAULTS.max_sessions, "Sessions kept at once, ended ones included.", lower_bound=1
)
_MAX_DIGEST_SIZE = flags.DEFINE_string(
    "max_digest_size", "1GiB", "Largest digest that may be registered; a shard takes about 60 bytes of it."
)
_TOKENS_FILE = flags.DEFINE_string(
    "tokens_file",
    "",
    "File of who may call, a line `role name sha256` for each token (tfquiver token new makes one); read again when it "
    "changes.",
)
_AUTH_TOKEN_FILE = flags.DEFINE_string(
    "auth_token_file",
    "",
    "File whose first line is a token that may do everything. Without --tokens_file: the one that all share.",
)
_ALLOW_UNAUTHENTICATED = flags.DEFINE_bool(
    "allow_unauthenticated", False, "Let callers of other machines in without a token."
)
log_lines.define()
_METRICS_ADDRESS = metrics_flag.define()
_DIE_WITH_PARENT = flags.DEFINE_bool("die_with_parent", False, "Stop when the process that started this one ends.")

for _flag, _valid, _message in (
    ("max_digest_size", sizes.is_size, "must be a size such as 500MB, 1GiB or 4096"),
    ("store_bytes_per_s", lambda text: not text or sizes.is_size(text), "must be bytes a second such as 200MB or 1GiB"),
    ("work_dir", bool, "must name a directory"),
    ("bind_host", bool, "must name a host or an address"),
):
    flags.register_validator(_flag, _valid, _message)


async def _serve() -> None:
    if _DIE_WITH_PARENT.value:
        serving.die_with_parent()
    host, tokens = _BIND_HOST.value, _tokens()
    serving.check_exposure(host, "--tokens_file", tokens is not None, _ALLOW_UNAUTHENTICATED.value)
    options = CoordinatorOptions(
        node_timeout_s=_NODE_TIMEOUT_MS.value / 1000,
        session_idle_s=_SESSION_TIMEOUT_MS.value / 1000,
        session_ended_s=_ENDED_SESSION_MS.value / 1000,
        chunk_timeout_s=_CHUNK_TIMEOUT_MS.value / 1000,
        policy=_POLICY.value,
        store_bytes_per_s=sizes.parse_bytes(_STORE_BYTES_PER_S.value or "0"),
        when_full=_WHEN_FULL.value,
        max_sessions=_MAX_SESSIONS.value,
        max_digest_bytes=sizes.parse_bytes(_MAX_DIGEST_SIZE.value),
    )
    stop, server, last_resort = serving.stop_event(), CoordinatorServer(), LastResort()
    address = f"{host}:{_PORT.value}"
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(server.stop)
        starting = asyncio.create_task(_started(server, stack, address, tokens, options))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            where = await starting
            stack.enter_context(full_collections.now_and_then())
            where = where or stack.enter_context(_told(server))
            serving.tell_where(Path(_WORK_DIR.value), "coordinator", server_file.reached_at(host, server.bound_port))
            serving.announce("coordinator", port=server.bound_port, work_dir=_WORK_DIR.value, metrics=where)
            server.coordinator.caretaker.on_replaced = stop.set
            await stopped
        replaced = server.coordinator.caretaker.replaced if server.is_started else ""
        last_resort.within(_STOP_S, 1 if replaced else 0)
        starting.cancel()
        if replaced:
            raise errors.AlreadyRunningError(replaced)
        logging.info("stopping")
    serving.leave()


async def _started(
    server: CoordinatorServer,
    stack: contextlib.AsyncExitStack,
    address: str,
    tokens: Tokens | None,
    options: CoordinatorOptions,
) -> str:
    """Returns when it serves: where it tells Prometheus so already; empty: nowhere yet."""
    where, is_told = "", False
    while not await _started_now(server, address, tokens, options):
        where = where or _told_while_standing_by(server, stack)
        if not is_told:
            serving.announce("coordinator", stands_by=True, work_dir=_WORK_DIR.value, metrics=where)
            is_told = True
        await asyncio.sleep(_STANDBY_LOOK_S)
    return where


async def _started_now(
    server: CoordinatorServer, address: str, tokens: Tokens | None, options: CoordinatorOptions
) -> bool:
    """False: another one holds the directory, and this one stands by."""
    work_dir = Path(_WORK_DIR.value).absolute()
    try:
        with slow_start.said(work_dir):
            # Who stands by looks first, in a thread: it is told to stop like any other, also while that disk hangs.
            if _STANDBY.value and not await asyncio.to_thread(_is_there, work_dir):
                return False
            await server.start(work_dir, address, tokens, options)
    except errors.AlreadyRunningError as error:
        if not _STANDBY.value:
            raise
        logging.log_first_n(logging.INFO, "standing by: %s", 1, error)
        return False
    return True


def _told(server: CoordinatorServer) -> contextlib.AbstractContextManager[str]:
    """What Prometheus is. Gives where."""
    return exposition.exposed(
        _METRICS_ADDRESS.value,
        "coordinator",
        lambda: metrics.families(server.coordinator) if server.is_started else metrics.standing_by(),
        TOLD_BY["coordinator"],
    )


def _told_while_standing_by(server: CoordinatorServer, stack: contextlib.AsyncExitStack) -> str:
    """Where, from now on; empty: nowhere yet. To Prometheus a server that tells nothing is down."""
    if not _METRICS_ADDRESS.value:
        return ""
    try:
        return stack.enter_context(_told(server))
    except errors.UnavailableError as error:  # the other one is on this machine, and has that port
        every_n_seconds(logging.WARNING, "standing by, and not seen by Prometheus: %s", 600, error)
        return ""


def _is_there(work_dir: Path) -> bool:
    """Whoever stands by begins nothing anew: where the directory is not mounted it would serve without any data set."""
    try:
        if was_held(work_dir):
            return True
        why = f"no coordinator has ever been in work_dir {work_dir}: is it not mounted here?"
    except errors.UnavailableError as error:
        why = str(error)
    every_n_seconds(logging.WARNING, "standing by: %s", 60, why)
    return False


def _tokens() -> Tokens | None:
    shared = own_token.read_token(_AUTH_TOKEN_FILE.value)
    if _TOKENS_FILE.value:
        return TokenFile(Path(_TOKENS_FILE.value), shared)
    return SharedToken(shared) if shared else None


def run() -> None:
    serving.run_server(_serve, __doc__ or "")


if __name__ == "__main__":
    run()
