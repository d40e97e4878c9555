"""Warm reads into PyTorch, beside MosaicML Streaming, WebDataset and LitData: the same records, shuffled, local.

Each row is a process of its own that reads the data twice; the second time counts, and every record is counted. Rows
of peers need their packages: `--peers_python` names an interpreter that has them (pip install mosaicml-streaming
webdataset litdata, with the same torch; of NumPy MosaicML Streaming wants an older one); peers that are missing, or
too slow, are left out, and said so. Rows take turns, `--rounds` times; medians. Without PyTorch, or any peer, there is
nothing to compare: the bench is skipped, and says what is missing.

    python -m tests.bench.torch_read [--quick] [--peers_python PATH]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.bench.bars import Bar, finish, run_bench

KINDS = {"256 B": (256, 256, 200_000), "110 KB": (110_000, 32, 2_000)}  # record bytes, batch, records
PEERS = {"mosaic": "mosaicml-streaming", "webdataset": "webdataset", "litdata": "litdata"}
OURS = ("tfquiver", "tfquiver-tensors")
WORKERS = (0, 2)
MOSAIC_BAR, BEST_BAR = 3.0, 1.0
ROW_S = 100


def payloads(record_bytes: int, records: int) -> Iterator[bytes]:
    noise = random.Random(1)
    for number in range(records):
        yield number.to_bytes(8, "little") + noise.randbytes(record_bytes - 8)


# What runs in a row's own process: `--row NAME KIND WORKERS FOLDER`.


def loader_of(name: str, folder: Path, record_bytes: int, batch: int, records: int, workers: int) -> Iterable[Any]:
    """Writes the data in the row's own format, where they are not there yet, and gives its loader of batches."""
    import torch.utils.data

    loader: Iterable[Any]
    if name in OURS:
        from tfquiver.scanning import tfrecord
        from tfquiver.torch import QuiverDataset, as_tensors

        path = folder / "data.tfrecord"
        if not path.exists():
            with path.open("wb") as out:
                out.writelines(map(tfrecord.frame, payloads(record_bytes, records)))
        decode = as_tensors if name == "tfquiver-tensors" else None
        data = QuiverDataset(
            str(path), cache_dir=folder / "cache", quota="4GiB", batch_size=batch, decode_batch=decode
        )  # fmt: skip
        loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers)
        return loader
    local = folder / name
    if name == "mosaic":
        from streaming import MDSWriter, StreamingDataset
        from streaming.base.util import clean_stale_shared_memory

        if not local.exists():
            with MDSWriter(out=str(local), columns={"data": "bytes"}) as out:
                for payload in payloads(record_bytes, records):
                    out.write({"data": payload})
        clean_stale_shared_memory()
        data = StreamingDataset(local=str(local), shuffle=True, batch_size=batch)
        loader = torch.utils.data.DataLoader(
            data, batch_size=batch, num_workers=workers, collate_fn=lambda samples: [s["data"] for s in samples]
        )  # fmt: skip
        return loader
    if name == "webdataset":
        import webdataset

        if not local.exists():
            local.mkdir()
            with webdataset.ShardWriter(str(local / "%05d.tar"), maxcount=max(1, records // 8), verbose=0) as out:
                for number, payload in enumerate(payloads(record_bytes, records)):
                    out.write({"__key__": f"{number:08}", "bin": payload})
        shards = sorted(map(str, local.glob("*.tar")))
        data = webdataset.WebDataset(shards, shardshuffle=8).shuffle(1000).to_tuple("bin")
        data = data.batched(batch, collation_fn=list)
        loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers)
        return loader
    import litdata

    if not local.exists():
        from litdata.streaming.writer import BinaryWriter

        local.mkdir()
        out = BinaryWriter(str(local), chunk_bytes=64 << 20)
        for number, payload in enumerate(payloads(record_bytes, records)):
            out[number] = payload
        out.done()
        out.merge(1)
    data = litdata.StreamingDataset(str(local), shuffle=True)
    # Its records are memoryviews, which a worker cannot send.
    loader = litdata.StreamingDataLoader(
        data, batch_size=batch, num_workers=workers, collate_fn=as_bytes if workers else list
    )
    return loader


def as_bytes(records: Iterable[Any]) -> list[bytes]:
    return [bytes(record) for record in records]


def read(loader: Iterable[Any]) -> tuple[int, int]:
    """How many records there were, and the sum of their numbers."""
    count = total = 0
    for batch in loader:
        if isinstance(batch, dict):
            offsets = batch["offsets"].tolist()
            data = batch["data"].numpy()
            count += len(offsets) - 1
            total += sum(int.from_bytes(data[at : at + 8].tobytes(), "little") for at in offsets[:-1])
        else:
            flat = [record[0] if isinstance(record, tuple | list) else record for record in batch]
            count += len(flat)
            total += sum(int.from_bytes(record[:8], "little") for record in flat)
    return count, total


def row(name: str, kind: str, workers: int, folder: Path) -> None:
    record_bytes, batch, records = KINDS[kind]
    loader = loader_of(name, folder, record_bytes, batch, records, workers)
    read(loader)
    began = time.perf_counter()
    found = read(loader)
    seconds = time.perf_counter() - began
    whole = found == (records, records * (records - 1) // 2)
    package = PEERS.get(name, "tfquiver")
    print(json.dumps({"records_per_s": records / seconds, "whole": whole, "version": version(package)}))


def measured(python: str, name: str, kind: str, workers: int, folder: Path) -> dict[str, Any]:
    command = [python, "-m", "tests.bench.torch_read", "--row", name, kind, str(workers), str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=ROW_S, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"nothing within {ROW_S} s"}
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:] or [str(done.returncode)]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(peers_python: str, rounds: int, all_workers: Sequence[int], folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = {"rows": {}, "versions": {}, "missing": []}
    for kind in KINDS:
        at = folder / kind.replace(" ", "")
        at.mkdir(exist_ok=True)
        rates: dict[str, list[float]] = {}
        for _ in range(rounds):
            for name in (*OURS, *PEERS):
                for workers in all_workers:
                    found = measured(sys.executable if name in OURS else peers_python, name, kind, workers, at)
                    if "failed" in found:
                        result["missing"].append(f"{name}, {kind}, {workers} workers: {found['failed']}")
                        continue
                    assert found["whole"], f"{name}, {kind}: not every record once"
                    result["versions"][name] = found["version"]
                    rates.setdefault(f"{name}/{workers}", []).append(found["records_per_s"])
        medians = {name: statistics.median(found) for name, found in rates.items()}
        best = {name: max((r for key, r in medians.items() if key.split("/")[0] == name), default=0.0) for name in
                (*OURS, *PEERS)}  # fmt: skip
        ours = max(best[name] for name in OURS)
        result["rows"][kind] = {
            "records_per_s": {name: round(rate) for name, rate in medians.items()},
            "of_mosaic": round(ours / best["mosaic"], 2) if best["mosaic"] else None,
            "of_best_other": round(ours / max(best["webdataset"], best["litdata"]), 2)
            if best["webdataset"] or best["litdata"]
            else None,
        }
    return result


def bars_of(result: dict[str, Any]) -> list[Bar]:
    """Of the peers that are here."""
    least = {"of_mosaic": ("MosaicML Streaming", MOSAIC_BAR), "of_best_other": ("the best other", BEST_BAR)}
    return [
        Bar(f"{kind}: of {who}", found[figure], bar)
        for kind, found in result["rows"].items()
        for figure, (who, bar) in least.items()
        if found[figure] is not None
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="once, without workers")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers_python", default=sys.executable)
    parser.add_argument("--row", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.row:
        name, kind, workers, folder = arguments.row
        row(name, kind, int(workers), Path(folder))
        return
    if importlib.util.find_spec("torch") is None:
        finish("torch_read", {}, [], arguments.quick, skipped="PyTorch is not installed: pip install torch")
    with TemporaryDirectory() as folder:
        rounds, workers = (1, WORKERS[:1]) if arguments.quick else (arguments.rounds, WORKERS)
        result = run(arguments.peers_python, rounds, workers, Path(folder))
    bars = bars_of(result)
    if not bars and (failed := [one for one in result["missing"] if one.startswith(OURS)]):
        raise RuntimeError("; ".join(failed))
    peers = f"no peer could be read: pip install {' '.join(PEERS.values())}, or --peers_python"
    finish("torch_read", result, bars, arguments.quick, skipped="" if bars else peers)


if __name__ == "__main__":
    run_bench(main)
