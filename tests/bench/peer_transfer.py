"""How fast a node gets shards from the node that owns them, against `sendfile` over the same loopback.

The owner is a process of its own with a warm raw store. Ours: the whole way of a miss at a node that does not own the
shards, into sealed memory that a reader could be given; once with the peer trusted, and once with all bytes hashed. The
limit of the first: a process that does nothing but `sendfile` the same entries over one connection, and a receiver that
takes them into one buffer that it uses again and again. Of the second: a receiver that hashes and seals each, too, for
on as few cores as here the hash is most of the work (a core hashes 1.0 to 1.8 GB/s; two connections use two).

    python -m tests.bench.peer_transfer [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from tests.bench.bars import Bar, finish, run_bench
from tests.support import records
from tests.support.store_node import StoreNode, build
from tfquiver.digests.digest import Digest
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.scanning.cutting import CutPolicy
from tfquiver.service.node.connections_between_nodes.peers import PeerClient
from tfquiver.service.node.disk import entry
from tfquiver.service.node.sealed_memory_of_checked_shards import sealed_memory

BAR, BUSY_BAR = 0.75, 0.5  # the latter where others use the machine, too
BUSY = 2.0  # load for each core, before it begins
HASHED_BAR = 1.0  # a program that does no more than receive, hash and seal
TOKEN = "the owner's"
ROUNDS = 5
SHARD_BYTES = 2 << 20
AHEAD = 16  # shards that a reader has under way
OWNER = "owner"


async def serve(root: Path, digest_path: Path) -> None:
    """The owner: a data port; and a port that sends every entry to whoever connects. Until its input ends."""
    digest = Digest.open(digest_path)
    async with StoreNode(root, [digest], node_id=OWNER, mode="raw", token=TOKEN) as node:
        for index in range(digest.num_shards):
            (await node.source.get(digest, index, OWNER)).close()
        plain = socket.create_server(("127.0.0.1", 0))
        paths = [path for path in (root / "objects").rglob("*") if path.is_file()]
        print(json.dumps({"address": node.address, "plain": plain.getsockname()[1]}), flush=True)
        sending = asyncio.to_thread(send_plainly, plain, paths)
        await asyncio.gather(sending, asyncio.to_thread(sys.stdin.read))


def send_plainly(listener: socket.socket, paths: list[Path]) -> None:
    while True:
        sock, _ = listener.accept()
        with sock:
            if sock.recv(1) == b"q":
                listener.close()
                return
            for path in paths:
                fd = os.open(path, os.O_RDONLY)
                offset, end = entry.HEADER_BYTES, os.fstat(fd).st_size
                while offset < end:
                    offset += os.sendfile(sock.fileno(), fd, offset, end - offset)
                os.close(fd)


def receive_plainly(port: int, size_bytes: int, seal: bool, hash: bool = False) -> float:
    """Seconds. With `seal`, each shard goes into sealed memory of its own: what a reader in another process needs."""
    buffer = bytearray(SHARD_BYTES)
    with socket.create_connection(("127.0.0.1", port)) as sock:
        start = time.perf_counter()
        sock.send(b"g")
        left = size_bytes
        while left:
            view = memoryview(buffer)[: min(left, SHARD_BYTES)]
            left -= len(view)
            whole = view
            while view:
                view = view[sock.recv_into(view) :]
            if hash:
                hashlib.sha256(whole).digest()
            if seal:
                os.close(sealed_memory.sealed(whole))
        return time.perf_counter() - start


async def get_all(peers: PeerClient, digest: Digest) -> float:
    order = list(range(digest.num_shards))
    random.Random(1).shuffle(order)
    wanted = iter(order)

    async def reader() -> None:
        for index in wanted:
            (await peers.get(OWNER, digest, digest.shard(index))).close()

    start = time.perf_counter()
    await asyncio.gather(*(reader() for _ in range(AHEAD)))
    return time.perf_counter() - start


async def measure(digest: Digest, ready: dict[str, object]) -> dict[str, list[float]]:
    member = types_pb2.NodeInfo(node_id=OWNER, data_address=str(ready["address"]), quota_bytes=1 << 40)
    trusting = PeerClient("reader", lambda: [member], TOKEN, trust=True)
    checking = PeerClient("reader", lambda: [member], TOKEN)
    port = int(str(ready["plain"]))

    async def plain(seal: bool, hash: bool = False) -> float:
        return await asyncio.to_thread(receive_plainly, port, digest.size_bytes, seal, hash)

    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(ROUNDS + 1):
        times["peer_trusted"].append(await get_all(trusting, digest))
        times["sendfile"].append(await plain(False))
        times["sendfile_sealed"].append(await plain(True))
        times["peer"].append(await get_all(checking, digest))
        times["sendfile_hashed"].append(await plain(True, True))
    for peers in (trusting, checking):
        await peers.close()
    return {name: each[1:] for name, each in times.items()}  # the first round warms up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, under a minute")
    parser.add_argument("--serve", nargs=2, metavar=("ROOT", "DIGEST"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve(*map(Path, arguments.serve)))
        return
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    size_bytes = (256 if arguments.quick else 1024) << 20
    rng = random.Random(3)
    with tempfile.TemporaryDirectory(prefix="peer-transfer-") as base:
        data, digest_path = Path(base) / "data", Path(base) / "data.tfqd"
        with data.open("wb") as file:
            for _ in range(size_bytes // SHARD_BYTES):
                file.write(records.stream([rng.randbytes(SHARD_BYTES - 16)]))
        digest = build(data, CutPolicy(1, 1, 1))
        digest.save(digest_path)
        command = [sys.executable, "-m", "tests.bench.peer_transfer", "--serve", f"{base}/cache", str(digest_path)]
        owner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert owner.stdin
        assert owner.stdout
        try:
            ready = json.loads(owner.stdout.readline())
            times = asyncio.run(measure(digest, ready))
            with socket.create_connection(("127.0.0.1", ready["plain"])) as sock:
                sock.send(b"q")
            owner.communicate(timeout=30)
        finally:
            owner.kill()
            owner.wait()
    rates = {name: digest.size_bytes / statistics.median(each) for name, each in times.items()}
    figures = {
        **{f"{name}_bytes_per_s": round(rate) for name, rate in rates.items()},
        "ratio_to_sealed": round(rates["peer_trusted"] / rates["sendfile_sealed"], 3),
        "checked_to_trusted": round(rates["peer"] / rates["peer_trusted"], 3),
        "shards": digest.num_shards,
        "load_a_core": round(load, 1),
    }
    bars = [
        Bar("trusted peer / sendfile", rates["peer_trusted"] / rates["sendfile"], BUSY_BAR if load > BUSY else BAR),
        Bar("peer / sendfile, sealed and hashed", rates["peer"] / rates["sendfile_hashed"], HASHED_BAR),
    ]
    finish("peer_transfer", figures, bars, arguments.quick)


if __name__ == "__main__":
    run_bench(main)
