"""The daemon of a cache directory, which a test has started by reading: who it is, what it says, its end."""

from __future__ import annotations

import json
from pathlib import Path

import grpc
import psutil

from tfquiver.node_daemon_and_notes_in_directories import daemon, endpoints
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc


class NoOp:
    """In the place of the op's library, where nothing is read in this process."""

    def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None: ...


def pid(cache_dir: Path) -> int:
    return int(json.loads((cache_dir / "node.json").read_text())["pid"])


def end_daemon(cache_dir: Path) -> None:
    endpoints.close_all()
    if (cache_dir / "node.json").exists() and psutil.pid_exists(its := pid(cache_dir)):
        process = psutil.Process(its)
        process.terminate()
        process.wait(60)


def status(cache_dir: Path) -> node_pb2.StatusReply:
    endpoint = daemon.find(cache_dir)
    assert endpoint is not None
    with grpc.insecure_channel(endpoint.control) as channel:
        return node_pb2_grpc.NodeStub(channel).Status(node_pb2.StatusRequest(), timeout=10)
