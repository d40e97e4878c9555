"""Who reads with whom: the ranks of a job, and the workers of each rank's DataLoader.

Ranks come from `torch.distributed` where it is initialised, else from the environment that `torchrun` sets. All ranks
of one run have to mean the same sessions and those of no other run: what they share is their *run*.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch.distributed
import torch.utils.data

from tfquiver import errors
from tfquiver.torch import processes

_PARTS_OF_ITS_PART = 4  # one is the pool, one what is ahead of it


@dataclass(frozen=True, slots=True)
class Ranks:
    """`run`: the same for all ranks of one run, and for nobody else."""

    rank: int
    world: int
    run: str


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker of a DataLoader, or the trainer itself (0 of 1).

    Attributes:
      loader: the same for all workers of one iteration of a DataLoader; None in the trainer. The next iteration has the
        same where the user seeds PyTorch alike before each.
      first: as which process of its parent's thread worker 0 was begun: a DataLoader begins one after the other. The
        same for all workers of one iteration, another one in the next.
    """

    number: int
    workers: int
    loader: int | None
    first: int = 0


def ranks(rank: int | None, world: int | None, environment: Mapping[str, str] = os.environ) -> Ranks:
    """Of this process. With `torch.distributed` every rank has to call this, as it has to call any collective.

    Raises InvalidArgumentError: no such rank, or nothing says which ranks belong together.
    """
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if (rank is None) != (world is None):
        raise errors.InvalidArgumentError("rank= and world_size=: give both, or none")
    if distributed and (rank is None or world == torch.distributed.get_world_size()):
        run = [uuid.uuid4().hex]
        if torch.distributed.get_world_size() > 1:
            torch.distributed.broadcast_object_list(run, src=0)
        return Ranks(torch.distributed.get_rank(), torch.distributed.get_world_size(), run[0])
    if rank is None or world is None:
        rank, world = _number(environment, "RANK", 0), _number(environment, "WORLD_SIZE", 1)
    if not 0 <= rank < world:
        raise errors.InvalidArgumentError(f"rank={rank}, world_size={world}: a rank is from 0 to world_size - 1")
    return Ranks(rank, world, uuid.uuid4().hex if world == 1 else _run_of(environment))


def _run_of(environment: Mapping[str, str]) -> str:
    run = environment.get("TORCHELASTIC_RUN_ID", "")
    if run in ("", "none"):
        raise errors.InvalidArgumentError(
            "several ranks, and nothing that says which of them belong together: call torch.distributed."
            "init_process_group() before this, or start them by torchrun with --rdzv-id, or name a stream="
        )
    parts = [run, *[environment.get(name, "") for name in ("TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT")]]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, "")
    if not text:
        return default
    if not text.isdecimal():
        raise errors.InvalidArgumentError(f"{name}={text!r} in the environment: must be a number")
    return int(text)


def worker() -> Worker:
    """Where this is called."""
    info = torch.utils.data.get_worker_info()
    if info is None:
        return Worker(0, 1, None)
    began = processes.begun()
    # DataLoader draws a seed for each iteration. The parent: ranks that seed alike may have a copy of one data set.
    loader = hash((info.seed - info.id, os.getppid(), began.thread))
    return Worker(info.id, info.num_workers, loader, began.number - info.id)


def within_its_part(
    options: Mapping[str, Any], size_bytes: int, readers: int, with_others: bool = False
) -> Mapping[str, Any]:
    """The options of one of several readers of a data set of so many bytes: it has at most half of its part in its pool
    and ahead of that. Else the first one to begin had all of a small data set before the others came. A deterministic
    order is made of the pool, for however many readers: there the pool stays what it is.

    Args:
      with_others: jobs, for whom any order that is made of the pool stays what it is.
    """
    if readers == 1 or options["order_log"] or options["replay"]:
        return options
    most = size_bytes // (_PARTS_OF_ITS_PART * readers)
    told = {**options, "readahead_bytes": max(1, min(options["readahead_bytes"], most))}
    if not options["deterministic"] and not (with_others and options["homogeneous"]):
        told["shuffle_bytes"] = min(options["shuffle_bytes"], max(1, most))  # 0 would be the order of the files
    return told
