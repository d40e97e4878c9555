"""A coordinator that asks for tokens, a node, and calls by whoever holds which token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc

from tests.support.cluster import Server
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2_grpc, node_pb2_grpc
from tfquiver.roles_and_tokens import tokens
from tfquiver.roles_and_tokens.identity import Role

CALL_S = 20.0
PEOPLE = (
    (Role.ADMIN, "ann"),
    (Role.NODE, "rack1"),
    (Role.JOB, "blue"),
    (Role.JOB, "green"),
)


class Trusted:
    """Started on construction; `close` it. `tokens` by name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        made = {name: tokens.new_token(role, name) for role, name in PEOPLE}
        self.tokens = {name: token for name, (token, _) in made.items()}
        self.tokens_file = root / "tokens"
        self.tokens_file.write_text("\n".join(line for _, line in made.values()) + "\n")
        self.tokens_file.chmod(0o644)
        for name, token in self.tokens.items():
            path = self.token_file(name)
            path.write_text(token + "\n")
            path.chmod(0o600)
        self.coordinator = Server(
            "tfquiver.service.coordinator.main",
            ["--port=0", f"--work_dir={root / 'coordinator'}", f"--tokens_file={self.tokens_file}"],
            root / "coordinator.log",
        ).start()
        try:
            self.node = self.start_node("a", "rack1")
        except BaseException:
            self.coordinator.stop()
            raise

    def token_file(self, name: str) -> Path:
        return self.root / f"{name}.token"

    def start_node(self, directory: str, who: str, *arguments: str) -> Server:
        return Server(
            "tfquiver.service.node.main",
            [
                f"--cache_dir={self.root / directory}", f"--coordinator={self.coordinator.address}", "--quota=64MiB",
                f"--auth_token_file={self.token_file(who)}", *arguments,
            ],
            self.root / f"{directory}.log",
        ).start()  # fmt: skip

    def close(self) -> None:
        self.node.stop()
        self.coordinator.stop()

    def call(self, who: str, method: str, request: Any) -> Any:
        """`who`: a name, or "" for nobody. Raises grpc.RpcError."""
        with rpc.channel(self.coordinator.address) as channel:
            return self._call(coordinator_pb2_grpc.CoordinatorStub(channel), who, method, request)

    def call_node(self, who: str, method: str, request: Any) -> Any:
        """As `call`; a streamed reply as a list."""
        with rpc.channel(self.node.ready["control"]) as channel:
            return self._call(node_pb2_grpc.NodeStub(channel), who, method, request)

    def _call(self, stub: Any, who: str, method: str, request: Any) -> Any:
        metadata = rpc.metadata(self.tokens.get(who, who))
        reply = getattr(stub, method)(request, timeout=CALL_S, metadata=metadata, wait_for_ready=True)
        return list(reply) if isinstance(reply, Iterator) else reply


def code_of(error: grpc.RpcError) -> grpc.StatusCode:
    code: grpc.StatusCode = error.code()
    return code
