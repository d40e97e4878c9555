"""A rank of a PyTorch job, as a program: reads epochs with a DataLoader and prints what it got, a JSON line each.

Arguments: cache directory, number of workers, a JSON object of options, files. Ranks find one another by the
environment that torchrun sets. With `state` in the options: a file in which the state is kept, and loaded from when it
is there.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed
import torch.distributed.algorithms.join
import torch.nn
import torch.utils.data
from torchdata.stateful_dataloader import StatefulDataLoader

import tfquiver
from tfquiver.torch import QuiverDataset


def number(record: memoryview) -> int:
    return int.from_bytes(record[:8], "little")


def order_of(options: dict[str, Any]) -> tfquiver.Shuffled | tfquiver.Deterministic:
    pool_bytes = options.get("pool_bytes", 20_000)
    if "deterministic" in options:
        return tfquiver.Deterministic(options["deterministic"], shuffle_bytes=pool_bytes)
    return tfquiver.Shuffled(shuffle_bytes=pool_bytes)


def training(loader: Iterable[list[int]]) -> Iterator[list[int]]:
    """A step of DistributedDataParallel for each batch: a rank waits in it for the others."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    with torch.distributed.algorithms.join.Join([model]):
        for numbers in loader:
            model(torch.tensor(numbers, dtype=torch.float32)[:, None]).sum().backward()
            yield numbers


def in_step(loader: Iterable[list[int]]) -> Iterator[list[int]]:
    """When each rank has its first batch they go on: the data is so little that one might have read it all before."""
    batches = iter(loader)
    first = next(batches, None)
    if torch.distributed.is_initialized():
        torch.distributed.barrier()
    if first is not None:
        yield first
    yield from batches


def main() -> None:
    cache_dir, workers, options = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        torch.distributed.init_process_group("gloo")
    data = QuiverDataset(
        sys.argv[4:], cache_dir=cache_dir, batch_size=options.get("batch_size", 16), decode=number, collate=list,
        stream=options.get("stream"), order=order_of(options),
        reading=tfquiver.Reading(readahead_bytes=options.get("readahead_bytes", 10_000)),
        first_use=tfquiver.FirstUse(cut=tfquiver.CutPolicy(*options.get("cut", (5_000, 10_000, 20_000)))),
    )  # fmt: skip
    context = options.get("context", "fork") if workers else None

    def loader_of(data: QuiverDataset) -> Any:
        return StatefulDataLoader(
            data, batch_size=None, num_workers=workers, multiprocessing_context=context,
            persistent_workers=bool(options.get("persistent")),
        )  # fmt: skip

    loader = loader_of(data)
    state = Path(options["state"]) if "state" in options else None
    if state and state.exists():
        loader.load_state_dict(torch.load(state, weights_only=False))
    for epoch in range(options.get("epochs", 1)):
        if options.get("set_epoch"):
            data.set_epoch(epoch)
        if options.get("copied"):
            loader = loader_of(copy.deepcopy(data))
        if "seed" in options:
            torch.manual_seed(options["seed"])
        batches = training(loader) if options.get("trains") else in_step(loader)
        for batch, numbers in enumerate(batches):
            print(json.dumps({"epoch": epoch, "numbers": numbers, "pid": os.getpid()}), flush=True)
            if batch + 1 == options.get("stop_after"):
                if state:
                    torch.save(loader.state_dict(), state)
                break
            if options.get("stepped"):
                sys.stdin.readline()
        print(json.dumps({"epoch": epoch, "ended": True}), flush=True)
    assert "tensorflow" not in sys.modules


if __name__ == "__main__":
    main()
