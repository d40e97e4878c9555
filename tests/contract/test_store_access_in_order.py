"""What a process tells its node about stores comes in the order in which it became true."""

from __future__ import annotations

import concurrent.futures
import threading
from pathlib import Path
from typing import Any

import grpc

from tfquiver.data_sources_found_and_registered.store_access import StoreAccess
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import NodeEndpoint
from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc
from tfquiver.stores.credentials.resolved import Access

_DELAYED_S = 1.0
_LATER = b"l" * 32


class Node(node_pb2_grpc.NodeServicer):
    """To which the second call takes longer than those after it."""

    def __init__(self) -> None:
        self.told = list[node_pb2.UseStoresRequest]()
        self.came, self.next_came = threading.Event(), threading.Event()
        self._calls = 0

    def UseStores(self, request: node_pb2.UseStoresRequest, context: Any) -> node_pb2.UseStoresReply:
        self._calls += 1
        if self._calls == 2:
            self.came.set()
            self.next_came.wait(_DELAYED_S)
        elif self._calls == 3:
            self.next_came.set()
        self.told.append(request)
        return node_pb2.UseStoresReply()


def test_an_older_word_does_not_take_a_newer_ones_place(tmp_path: Path) -> None:
    """Of two threads the slower one was the last to be heard, and the node did not know what the other one reads."""
    node = Node()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    node_pb2_grpc.add_NodeServicer_to_server(node, server)
    control = f"unix:{tmp_path / 'control.sock'}"
    server.add_insecure_port(control)
    server.start()
    access = StoreAccess("")
    endpoint = NodeEndpoint(str(tmp_path / "socket"), "", "", "n")
    assert endpoint.local_control == control
    try:
        access.use([Access("s3", "{}")], endpoint)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            slower = pool.submit(access.reads, b"f" * 32)
            assert node.came.wait(60)
            pool.submit(access.reads, _LATER).result()
            slower.result()
        assert [list(one.digest_ids) for one in node.told] == [[], [b"f" * 32], [b"f" * 32, _LATER]]
    finally:
        access.close()
        server.stop(None).wait()
