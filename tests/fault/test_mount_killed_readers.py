"""A process that is killed while it reads a mount whose node hangs: it ends, long before its read would have been given
up, and who reads the same beside it reads on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.cluster import wait_until
from tests.support.daemons import daemons
from tests.support.mounted import Mounted, mounted
from tests.support.privileges import needs_fuse, needs_mounts

pytestmark = [needs_fuse, needs_mounts]  # who waits for what, the kernel tells root
FILE_BYTES, READ_BYTES = 300_000, 128 << 10
PATIENCE_S, ENDS_S, LOOKS = 120.0, 20.0, 10
DIRECT = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
buffer = mmap.mmap(-1, int(sys.argv[2]))
sys.stdout.write(str(os.preadv(fd, [buffer], 0)))
"""
BY_A_THREAD = f"""
import os, threading
opened = []
def by_a_thread(path, flags, call=os.open):
    thread = threading.Thread(target=lambda: opened.append(call(path, flags)))
    thread.start()
    thread.join()
    return opened[0]
os.open = by_a_thread
{DIRECT}"""
LIST = "import os, sys; sys.stdout.write(str(os.open(sys.argv[1], os.O_RDONLY)))"
IN_A_CALL = {"0", "2", "257", "295", "327"}  # read, open, openat, preadv, preadv2


@contextmanager
def reading(program: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process in the middle of its call."""
    line = [sys.executable, "-S", "-c", program, str(path), str(READ_BYTES)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        try:
            looks = list[bool]()  # what is answered at once, as where its file is, it does not wait for so long

            def stays() -> bool:
                looks.append(waits_for_the_mount(process.pid))
                return len(looks) >= LOOKS and all(looks[-LOOKS:])

            wait_until(stays, "it waits")
            yield process
        finally:
            process.kill()


def waits_for_the_mount(pid: int) -> bool:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    call = Path(f"/proc/{pid}/syscall").read_text().split()[0]
    stack = Path(f"/proc/{pid}/wchan").read_text()
    return fields[0] in "SD" and call in IN_A_CALL and ("fuse" in stack or "request" in stack)


@contextmanager
def hanging(tmp_path: Path, seed: int) -> Iterator[tuple[Mounted, Path]]:
    """A mount whose node is stopped, and goes on afterwards; a file of its source."""
    source = tmp_path / "data"
    source.mkdir()
    (source / "0").write_bytes(random.Random(seed).randbytes(FILE_BYTES))
    with mounted(tmp_path / "mnt", tmp_path / "cache", [str(source)], f"--patience_s={PATIENCE_S:g}") as mount:
        (mount.point / "0").stat()
        [node] = daemons(tmp_path / "cache")
        os.kill(node.pid, signal.SIGSTOP)
        try:
            yield mount, source / "0"
        finally:
            os.kill(node.pid, signal.SIGCONT)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize(
    ("program", "name"),
    [(DIRECT, "0"), (BY_A_THREAD, "0"), (LIST, ".tfquiver/next")],
    ids=["O_DIRECT", "thread", "next"],
)
def test_it_ends(tmp_path: Path, seed: int, program: str, name: str, sent: int) -> None:
    with hanging(tmp_path, seed) as (mount, _), reading(program, mount.point / name) as process:
        process.send_signal(sent)
        assert process.wait(ENDS_S) == -sent


def test_who_reads_the_same_beside_it_reads_on(tmp_path: Path, seed: int) -> None:
    with hanging(tmp_path, seed) as (mount, source):
        path = mount.point / "0"
        with reading(DIRECT, path) as killed, reading(DIRECT, path) as other:
            killed.kill()
            killed.wait(ENDS_S)
            assert other.poll() is None
            [node] = daemons(tmp_path / "cache")
            node.resume()
            said, _ = other.communicate(timeout=ENDS_S)
            assert said == str(READ_BYTES)
        assert path.read_bytes() == source.read_bytes()
