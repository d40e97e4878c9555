from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.scripted_node import ScriptedNode
from tests.support.shard_bytes import write_shards

MakeNode = Callable[..., ScriptedNode]


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[MakeNode]:
    """make_node(shards, sealed=False): a scripted node over lists of records, known to this process as the default."""
    from tfquiver.ops.compiling_and_loading import loader

    with ExitStack() as stack:

        def make(shards: Sequence[Sequence[bytes]], *, sealed: bool = False) -> ScriptedNode:
            written = write_shards(tmp_path / "data", shards)
            node = stack.enter_context(ScriptedNode(tmp_path / "socket", written, sealed=sealed))
            loader.load().set_endpoint("", str(node.path))
            return node

        yield make


def numbered(shards: int, records: int, size: int = 0) -> list[list[bytes]]:
    """Distinct records, of at least `size` bytes."""
    return [[f"{shard}.{record}".encode().ljust(size, b"-") for record in range(records)] for shard in range(shards)]
