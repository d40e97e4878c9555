"""PyTorch jobs of some ranks (torch_ranks), and what they read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support import fixed_ports

ROOT = Path(__file__).resolve().parents[2]


class Job:
    """Some ranks, each a process with DataLoader workers."""

    def __init__(
        self, paths: Sequence[Path], cache_dir: Path, ranks: int, workers: int, options: Sequence[dict[str, Any]]
    ) -> None:
        environment = {
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": str(fixed_ports.free_port()),
        }
        self.ranks = [
            subprocess.Popen(
                [sys.executable, "-m", "tests.support.torch_ranks", str(cache_dir), str(workers),
                 json.dumps(options[rank]), *map(str, paths)],
                env={**os.environ, **environment, "RANK": str(rank)}, cwd=ROOT, text=True, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for rank in range(ranks)
        ]  # fmt: skip

    def said(self) -> list[list[dict[str, Any]]]:
        """All of each rank. Raises AssertionError when one fails."""
        all_said = []
        for rank in self.ranks:
            out, err = rank.communicate(timeout=240)
            assert rank.returncode == 0, err[-3000:]
            all_said.append([json.loads(line) for line in out.splitlines()])
        return all_said


def count(said: Sequence[dict[str, Any]], epoch: int = 0) -> Counter[int]:
    return Counter(number for line in said if line["epoch"] == epoch for number in line.get("numbers", ()))
