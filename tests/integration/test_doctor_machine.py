"""`tfquiver doctor` looks at this machine: TensorFlow and the op, what a container may have."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import pytest

from tests.support.cluster import wait_until
from tfquiver.cli.doctor import machine


def test_as_a_person_sees_it_with_the_op(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tfquiver", "doctor", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, loaded, _ = done.stdout.strip().splitlines()
    assert "TensorFlow and the op: TensorFlow 2." in loaded, "it takes longest, and all else is known before"
    assert done.stdout.strip().endswith("0 wrong")
    assert "Traceback" not in done.stderr


def test_a_tensorflow_that_cannot_be_imported_is_not_well_though_servers_can_do_without_its_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Path(importlib.util.find_spec("tensorflow").submodule_search_locations[0])  # type: ignore[union-attr, index]
    broken = tmp_path / "tensorflow"
    broken.mkdir()
    for path in there.iterdir():
        if path.name != "__init__.py":
            (broken / path.name).symlink_to(path)
    (broken / "__init__.py").write_text("raise RuntimeError('of another NumPy')\n")
    [about] = there.parent.glob(f"tensorflow-{metadata.version('tensorflow')}.dist-info")
    (tmp_path / about.name).symlink_to(about)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path[1:]]))
    found = machine.op()
    assert (found.verdict, found.what) == ("fail", "TensorFlow and the op")
    assert found.why == "TensorFlow cannot be imported, as trainers do: RuntimeError: of another NumPy"
    assert "import tensorflow" in found.do


COMPILES = """
import sys
print("W compiling tfquiver's op for TensorFlow 2.21.0", file=sys.stderr, flush=True)
open({done!r}).read()
print('{{"tensorflow": "2.21.0", "library": "/x/op.so"}}')
"""


def test_who_waits_for_a_compiler_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled = tmp_path / "compiled"
    os.mkfifo(compiled)
    monkeypatch.setattr(machine, "_LOAD", COMPILES.format(done=str(compiled)))
    monkeypatch.setattr(machine, "_SAY_EVERY_S", 0.1)
    with ThreadPoolExecutor(1) as pool:
        finding = pool.submit(machine.op)
        try:
            wait_until(lambda: "compiling the op" in capsys.readouterr().err, "the notice", 60)
            assert not finding.done()
        finally:
            compiled.write_text("yes")
        assert finding.result().why == "TensorFlow 2.21.0, op.so"


def test_what_does_not_load_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_LOAD", "import signal; signal.pause()")
    monkeypatch.setattr(machine, "_SAY_EVERY_S", 0.1)
    monkeypatch.setattr(machine, "_LOAD_S", 0.3)
    finding = machine.op()
    assert (finding.verdict, finding.why) == ("fail", "not loaded within 0 s")


def test_what_a_container_may_have_counts(tmp_path: Path) -> None:
    group = tmp_path / "cgroup" / "pod"
    group.mkdir(parents=True)
    (tmp_path / "own").write_text("0::/pod\n")
    (group / "memory.max").write_text("536870912\n")
    found = machine._memory(tmp_path / "cgroup", tmp_path / "own")
    assert (found.verdict, found.why) == ("warn", "537 MB in this container")
    (group / "memory.max").write_text("max\n")
    assert machine._memory(tmp_path / "cgroup", tmp_path / "own").verdict == "ok"


@pytest.mark.parametrize(
    ("own", "file"),
    [
        ("0::/kubepods/pod/container\n", "kubepods/pod/memory.max"),
        ("0::/kubepods/pod/container\n", "memory.max"),
        ("", "memory.max"),
        ("5:cpu:/\n4:memory:/docker/1\n0::/\n", "memory/docker/memory.limit_in_bytes"),
        ("4:cpu,memory:/docker/1\n", "memory/docker/1/memory.limit_in_bytes"),
    ],
)
def test_what_any_group_around_it_may_have_counts(tmp_path: Path, own: str, file: str) -> None:
    (tmp_path / "own").write_text(own)
    limited = tmp_path / "cgroup" / file
    limited.parent.mkdir(parents=True)
    limited.write_text("536870912\n")
    found = machine._memory(tmp_path / "cgroup", tmp_path / "own")
    assert (found.verdict, found.why) == ("warn", "537 MB in this container")
