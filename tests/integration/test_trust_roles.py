"""Real servers that ask for tokens: what each role is let do, and ports that are not opened to strangers unasked."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.support import warm
from tests.support.cluster import Server, wait_until
from tests.support.trusted import Trusted, code_of
from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import coordinator_pb2 as pb
from tfquiver.proto.tfquiver.v1 import node_pb2, types_pb2
from tfquiver.roles_and_tokens import tokens
from tfquiver.roles_and_tokens.identity import CALLS, Role
from tfquiver.service.node.connections_between_nodes.peer_connection import PeerConnection

COORDINATOR, NODE = "tfquiver.service.coordinator.main", "tfquiver.service.node.main"
DENIED, UNAUTHENTICATED = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trusted]:
    trusted = Trusted(tmp_path_factory.mktemp("trusted"))
    yield trusted
    trusted.close()


def empty_requests() -> list[tuple[str, str, object]]:
    """(service, method, request) of every call there is."""
    found = []
    for module in (pb, node_pb2):
        for service in module.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                message = getattr(module, method.input_type.name)()
                found.append((service.name, method.name, iter([message]) if method.client_streaming else message))
    return found


@pytest.mark.parametrize("token", ["", "wrong", "tfq-admin-" + "A" * 43])
def test_nobody_calls_anything_without_a_token_that_is_known(cluster: Trusted, token: str) -> None:
    for service, method, request in empty_requests():
        with pytest.raises(grpc.RpcError) as raised:
            (cluster.call if service == "Coordinator" else cluster.call_node)(token, method, request)
        assert code_of(raised.value) is UNAUTHENTICATED, method


@pytest.mark.parametrize(("who", "role"), [("blue", Role.JOB), ("rack1", Role.NODE)])
def test_each_role_is_refused_what_the_table_does_not_give_it(cluster: Trusted, who: str, role: Role) -> None:
    for service, method, request in empty_requests():
        if role in CALLS[f"/tfquiver.v1.{service}/{method}"]:
            continue
        with pytest.raises(grpc.RpcError) as raised:
            (cluster.call if service == "Coordinator" else cluster.call_node)(who, method, request)
        assert code_of(raised.value) is DENIED, method
        assert who in str(raised.value.details())


def test_a_job_cannot_pass_for_a_node(cluster: Trusted) -> None:
    stranger = types_pb2.NodeInfo(node_id="rogue", data_address="localhost:1", quota_bytes=1 << 50)
    with pytest.raises(grpc.RpcError, match="Heartbeat is not for job blue"):
        cluster.call("blue", "Heartbeat", pb.HeartbeatRequest(node=stranger, incarnation="1"))
    nodes = cluster.call("blue", "ListNodes", pb.ListNodesRequest()).nodes
    assert [node.node_id for node in nodes] == [cluster.node.ready["node_id"]]


@pytest.mark.parametrize(
    ("who", "complaint"), [("", "token"), ("wrong", "token"), ("blue", "job blue"), ("rack1", ""), ("ann", "")]
)
def test_the_data_port_is_for_nodes(cluster: Trusted, who: str, complaint: str) -> None:
    address = f"localhost:{cluster.node.ready['data_port']}"
    token = cluster.tokens.get(who, who)
    if not complaint:
        PeerConnection(cluster.node.ready["node_id"], address, token, "peer").close()
        return
    with pytest.raises(errors.UnavailableError, match=complaint):
        PeerConnection(cluster.node.ready["node_id"], address, token, "peer")


def test_a_node_with_a_jobs_token_does_not_start(cluster: Trusted) -> None:
    with pytest.raises(
        RuntimeError, match="Heartbeat is not for job blue, whose token this is: it takes an admin's or a node's token"
    ):
        cluster.start_node("rogue", "blue")


@pytest.mark.parametrize(("who", "complaint"), [("blue", "Identify is not for job blue"), ("", "token")])
def test_a_dispatcher_that_would_not_see_all_sessions_does_not_start(
    cluster: Trusted, who: str, complaint: str
) -> None:
    """It would end epochs that others still have to read, for it knows nothing of them."""
    flags = ["--port=0", f"--node_dir={cluster.root / 'a'}", f"--work_dir={cluster.root / 'work'}"]
    flags += [f"--auth_token_file={cluster.token_file(who)}"] if who else []
    with pytest.raises(RuntimeError, match=f"--auth_token_file: the coordinator says: .*{complaint}"):
        Server("tfquiver.service.dispatcher.main", flags, cluster.root / "dispatcher.log").start()


def test_a_token_that_is_struck_out_is_refused_soon_and_a_new_one_let_in(cluster: Trusted) -> None:
    token, line = tokens.new_token(Role.JOB, "red")
    before = cluster.tokens_file.read_text()

    def let_in() -> bool:
        try:
            cluster.call(token, "ListNodes", pb.ListNodesRequest())
        except grpc.RpcError as error:
            assert code_of(error) is UNAUTHENTICATED
            return False
        return True

    assert not let_in()
    cluster.tokens_file.write_text(before + line + "\n")
    wait_until(let_in, "the new token is let in", 10.0)
    cluster.tokens_file.write_text(before)
    wait_until(lambda: not let_in(), "the token is refused", 10.0)


def refused(module: str, *flags: str) -> str:
    done = warm.run([sys.executable, "-m", module, *flags], capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_port_for_other_machines_needs_a_token_or_words(tmp_path: Path) -> None:
    flags = ["--port=0", f"--work_dir={tmp_path / 'work'}", "--bind_host=0.0.0.0"]
    assert "--allow_unauthenticated" in refused(COORDINATOR, *flags)
    coordinator = Server(COORDINATOR, [*flags, "--allow_unauthenticated"], tmp_path / "coordinator.log").start()
    try:
        joins = f"--coordinator={coordinator.address}"
        for more in ([joins], ["--port=0"]):
            said = refused(NODE, f"--cache_dir={tmp_path / 'cache'}", "--bind_host=0.0.0.0", *more)
            assert "--allow_unauthenticated" in said
        node = Server(NODE, [f"--cache_dir={tmp_path / 'cache'}", joins], tmp_path / "node.log").start()
        node.stop()
        assert "every process of this machine" in node.log.read_text()
    finally:
        coordinator.stop()
    assert "--allow_unauthenticated: whoever reaches" in coordinator.log.read_text()


@pytest.mark.parametrize(("flag", "content"), [("--auth_token_file", b"\xff\n"), ("--tokens_file", b"job blue\n")])
def test_files_that_cannot_be_right_are_named(tmp_path: Path, flag: str, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert f"{flag}={path}" in refused(COORDINATOR, f"--work_dir={tmp_path / 'work'}", f"{flag}={path}")


def test_the_command_makes_a_token_and_its_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tfquiver.cli.main", "token", "new", "job", "sweep", "--out", str(tmp_path / "t")]
    done = warm.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert (tmp_path / "t").stat().st_mode & 0o777 == 0o600
    token = (tmp_path / "t").read_text().strip()
    assert tokens.parse(done.stdout, "line") == {tokens.hash_of(token): tokens.Identity(Role.JOB, "sweep")}
    again = warm.run(command, capture_output=True, text=True, timeout=30)
    assert again.returncode == 1
    assert "--out" in again.stderr


@pytest.mark.parametrize("said", [False, True])
def test_a_worker_passes_the_word_on_to_its_own_node(tmp_path: Path, said: bool) -> None:
    """Its dispatcher is one that only accepts."""
    flags = ["--port=0", f"--work_dir={tmp_path / 'work'}"]
    coordinator = Server(COORDINATOR, flags, tmp_path / "coordinator.log").start()
    with socket.create_server(("localhost", 0)) as dispatcher:
        flags = [
            "--port=0", f"--dispatcher=localhost:{dispatcher.getsockname()[1]}", f"--cache_dir={tmp_path / 'cache'}",
            f"--coordinator={coordinator.address}", "--node_flag=--bind_host=0.0.0.0",
            *(["--allow_unauthenticated"] if said else []),
        ]  # fmt: skip
        worker = Server("tfquiver.service.worker.main", flags, tmp_path / "worker.log").launch()
        try:
            runs = tmp_path / "cache" / "node.json"
            wait_until(lambda: runs.exists() or not worker.running, "the node runs, or the worker has ended")
            assert runs.exists() == said, worker.log_tail()
            assert said or "--allow_unauthenticated" in worker.log_tail()
        finally:
            worker.kill()
            coordinator.stop()
