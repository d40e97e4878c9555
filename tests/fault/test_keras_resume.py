"""The example of docs/resume.md: `model.fit` is killed in mid-epoch, started again, and has left nothing out."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support import numbered

pytestmark = pytest.mark.long

DOCS = Path(__file__).resolve().parents[2] / "docs" / "resume.md"
RECORDS, BATCH, EPOCHS, RECORD_BYTES = 4000, 20, 2, 300
BATCHES = RECORDS // BATCH
# What may be trained on twice: held back, prefetched, and of shards that are not out of the pool (docs/resume.md).
REPEATED = (8 + 4) * BATCH + 8 * (20_000 + 20_000) // RECORD_BYTES + 40_000 // RECORD_BYTES * 4


def example() -> str:
    (block,) = [block for block in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S) if "model.fit" in block]
    return block


def test_a_killed_fit_leaves_no_record_out(tmp_path: Path, seed: int) -> None:
    (tmp_path / "resume_example.py").write_text(example())
    (file,) = numbered.write(tmp_path / "data", 1, RECORDS, RECORD_BYTES)
    command = [sys.executable, "resume_example.py", str(file), str(tmp_path / "cache"), str(tmp_path / "backup")]
    path = os.pathsep.join([str(DOCS.parents[1]), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
    kill_at = random.Random(seed).randrange(BATCHES // 2, BATCHES - 25)
    try:
        first = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
        with first:
            assert first.stdout is not None
            reached = any(line == f"batch {kill_at}\n" for line in first.stdout)
            first.kill()
        assert reached, "it ended by itself before"
        second = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=180)
        assert second.returncode == 0, second.stderr[-3000:]
        said = second.stdout.splitlines()[-1]
        print(f"killed at batch {kill_at}: {said}")
        found = re.fullmatch(rf"{RECORDS} records: (\d+) to (\d+) times each, (\d+) in all", said)
        assert found
        least, _, in_all = map(int, found.groups())
        assert least == EPOCHS
        assert in_all <= EPOCHS * RECORDS + REPEATED
        assert second.stdout.count("batch ") < EPOCHS * BATCHES, "the first epoch began anew"
        assert not (tmp_path / "backup").exists()
    finally:
        for process in psutil.process_iter(["cmdline"]):
            if f"--cache_dir={tmp_path / 'cache'}" in (process.info["cmdline"] or ()):
                process.terminate()
                process.wait(60)
