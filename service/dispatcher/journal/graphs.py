"""Which sessions a dispatcher's pipelines read from: found in the graphs that it keeps in `<work_dir>/datasets`."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_OP_NAME = b"QuiverDataset"
# In a string constant (TensorProto.string_val, field 8): its length, then a session key, as tensorflow_client makes
# them, which begin with 32 hexadecimal digits. What only looks like one is the key of no session.
_KEY = re.compile(rb"B(?:([\x20-\x7f])|([\x80-\xff])\x01)(?=[0-9a-f]{32})", re.DOTALL)


class Graphs:
    """Reads each graph once, for as long as it is asked for. Not thread-safe."""

    def __init__(self, work_dir: Path) -> None:
        self._dir = work_dir / "datasets"
        self._keys: dict[str, frozenset[str]] = {}

    def ours(self, dataset_ids: Iterable[str]) -> dict[str, frozenset[str]]:
        """Data set id -> its session keys, of those with a QuiverDataset in them."""
        found = {}
        for name in dataset_ids:
            if name not in self._keys:
                self._keys[name] = self._read(name)
            if self._keys[name]:
                found[name] = self._keys[name]
        return found

    def forget_all_but(self, dataset_ids: set[str]) -> None:
        for name in self._keys.keys() - dataset_ids:
            del self._keys[name]

    def _read(self, dataset_id: str) -> frozenset[str]:
        path = self._dir / dataset_id
        if not path.is_file() or not path.stat().st_size:
            return frozenset()
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as graph:
            if graph.find(_OP_NAME) < 0:
                return frozenset()
            return frozenset(_keys(graph))


def _keys(graph: mmap.mmap) -> Iterator[str]:
    for match in _KEY.finditer(graph):
        short, longer = match.groups()
        length = short[0] if short else 0x80 | longer[0] & 0x7F
        key = graph[match.end() : match.end() + length]
        if len(key) == length and key.isascii():
            yield key.decode()
