"""Where no library of the package fits, one is compiled for the user: once, kept, and never inside the package.

The compiler is a stand-in of several words that takes its time and links a copy of the library that is built already:
what a real one makes of the sources is what all other tests here load.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.cluster import wait_until
from tfquiver import errors
from tfquiver.ops.compiling_and_loading import build, loader, own_build, tensorflows

COMPILER = """
import shutil, sys, time
output = sys.argv[sys.argv.index("-o") + 1]
if "-c" in sys.argv:
    open(output, "w").close()
else:
    time.sleep(1)  # long enough for the other process to find no library, too
    with open(sys.argv[2], "a") as log:
        log.write(output.rpartition("/")[2].partition(".so")[0] + "\\n")
    shutil.copy(sys.argv[1], output)
"""
USE = """
import sys
from pathlib import Path
from tfquiver.service.common_to_servers.tensorflow_servers.without_keras import without_keras
with without_keras():
    import tensorflow
from tfquiver.ops.compiling_and_loading import loader
library = loader._load(Path(sys.argv[1]))
assert library.build_info()
print(library.path)
"""


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package's lib folder without a library; the user's cache is in tmp_path."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    (tmp_path / "lib").mkdir()
    return tmp_path / "lib"


@pytest.mark.long
def test_compiled_once_for_all_processes(empty: Path, tmp_path: Path) -> None:
    (tmp_path / "compiler.py").write_text(COMPILER)
    words = f"{sys.executable} '{tmp_path}/compiler.py' {loader.load().path} {tmp_path}/log"
    environment = {**os.environ, "CXX": words}
    command = [sys.executable, "-c", USE, str(empty)]
    both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0] and said[0] == said[1]
    path = Path(said[0].strip())
    assert path.is_relative_to(tmp_path / "a cache" / "tfquiver" / "ops") and path.stat().st_uid == os.geteuid()
    linked = (tmp_path / "log").read_text().split()
    assert len(linked) == len(set(linked)) and path.stem in linked
    assert not list(empty.iterdir()), "the package is not written to"


def test_who_waits_for_another_process_says_so(
    empty: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(own_build, "_SAID_EVERY_S", 0.05)
    target = tensorflows.installed()
    folder = own_build._directory() / own_build._key(target)
    folder.mkdir(mode=0o700, parents=True)
    with ThreadPoolExecutor(1) as pool, (folder / "lock").open("w") as others:
        fcntl.flock(others, fcntl.LOCK_EX)
        waiting = pool.submit(own_build.library, target)
        try:
            said = ""

            def says_so() -> bool:
                nonlocal said
                said += capsys.readouterr().err
                again = "\ntfquiver: still waiting for the process that compiles, for "
                return (
                    said.startswith("tfquiver: another process compiles tfquiver's op for TensorFlow") and again in said
                )

            wait_until(says_so, "it says so")
            assert not waiting.done()
            shutil.copy(loader.load().path, folder / tensorflows.library_name(target.version))
        finally:
            fcntl.flock(others, fcntl.LOCK_UN)
        assert waiting.result(30).parent == folder
    assert "compiling" not in said + capsys.readouterr().err


def test_the_reader_library_is_made_with_the_op(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `python -m tfquiver.ops.compiling_and_loading.build` does it: nobody waits for a compiler a second time."""
    (tmp_path / "compiler.py").write_text(COMPILER)
    words = f"{sys.executable} '{tmp_path}/compiler.py' {loader.load().path} {tmp_path}/log"
    monkeypatch.setenv("CXX", words)
    target = tensorflows.installed()
    op, reader = made = own_build.libraries([target])
    [said] = capsys.readouterr().err.splitlines()
    assert re.match(r"tfquiver: compiling tfquiver's op for TensorFlow \S+ and reader: a few minutes, once ", said)
    linked = (tmp_path / "log").read_text().split()
    assert reader.is_file() and reader.name == build.READER
    assert linked[-1] == op.stem, "who finds the op looks for no more: all is there by then"
    assert own_build.library(None) == reader and own_build.libraries([target]) == made
    assert (tmp_path / "log").read_text().split() == linked, "what is there is not compiled again"
    assert capsys.readouterr().err.splitlines() == [
        f"tfquiver: the op for TensorFlow {target.version} is there already: {op} (--anew: compile it again)",
        f"tfquiver: the reader is there already: {reader} (--anew: compile it again)",
    ]
    assert own_build.libraries([target], anew=True) == made
    assert len((tmp_path / "log").read_text().split()) == 2 * len(linked)


def test_who_waits_for_the_compiler_is_told_for_how_long(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "compiler.py").write_text(COMPILER)
    monkeypatch.setenv("CXX", f"{sys.executable} '{tmp_path}/compiler.py' {loader.load().path} {tmp_path}/log")
    monkeypatch.setattr(own_build, "_SAID_EVERY_S", 0.6)
    own_build.library(None)
    first, *again = capsys.readouterr().err.splitlines()
    assert first.startswith("tfquiver: compiling tfquiver's reader: a minute, once (kept in ")
    assert again[0] == "tfquiver: still compiling, for 1 s now"


@pytest.mark.parametrize("left", [0, 5, 4096, -1])
def test_what_is_there_in_part_is_compiled_again(
    left: int, empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To load it ended the process, or failed, each time, until somebody deleted it."""
    target, whole = tensorflows.installed(), loader.load().path
    (tmp_path / "compiler.py").write_text(COMPILER.replace("time.sleep(1)", "pass"))
    monkeypatch.setenv("CXX", f"{sys.executable} '{tmp_path}/compiler.py' {whole} {tmp_path}/log")
    path = own_build._path(target)
    path.parent.mkdir(mode=0o700, parents=True)
    path.write_bytes(whole.read_bytes()[:left])
    assert own_build.library(target) == path
    assert path.read_bytes() == whole.read_bytes()
    linked = (tmp_path / "log").read_text()
    assert own_build.library(target) == path and (tmp_path / "log").read_text() == linked


def failure(lib: Path) -> str:
    with pytest.raises(errors.TensorFlowError) as caught:
        loader._load(lib)
    assert isinstance(caught.value, ImportError)
    return str(caught.value)


def test_without_a_compiler(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    (empty / "libtfquiver_tf2_99.so").touch()
    text = failure(empty)
    assert "only libtfquiver_tf2_99.so" in text
    assert "no C++ compiler 'no-such-compiler' here: apt-get install g++" in text
    assert (
        "a wheel that `make package` has made, with TensorFlow 2.18, 2.19, 2.20, 2.21: it has the op compiled" in text
    )


def test_a_compiler_that_is_no_command_is_named(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++ '-O2")
    assert """CXX="g++ '-O2" is no command: No closing quotation""" in failure(empty)


def test_a_compiler_that_fails_is_quoted(empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = r"import sys; sys.exit('old.h:1: error: this compiler is too old\nand 3 warnings')"
    (tmp_path / "fails.py").write_text(script)
    monkeypatch.setenv("CXX", f"{sys.executable} {tmp_path}/fails.py")
    text = failure(empty)
    assert "fails with exit code 1:\n  old.h:1: error: this compiler is too old" in text and "warnings" not in text
    folders = list((tmp_path / "a cache" / "tfquiver" / "ops").iterdir())
    assert [[path.name for path in folder.iterdir()] for folder in folders] == [["lock"]], "nothing half made stays"


def test_nowhere_to_keep_it(empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    text = failure(empty)
    assert "say where in XDG_CACHE_HOME" in text and str(tmp_path / "file") in text


def test_a_folder_that_others_may_write_to_is_not_trusted(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    target = tensorflows.installed()
    with pytest.raises(build.BuildError):
        own_build.library(target)
    (folder,) = own_build._directory().iterdir()
    shutil.copy(loader.load().path, folder)
    folder.chmod(0o777)
    with pytest.raises(PermissionError, match=f"{folder}: others than this user may write there"):
        own_build.library(target)
    folder.chmod(0o700)
    assert own_build.library(target) == folder / tensorflows.library_name(target.version)


def test_a_library_for_a_newer_c_library(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    path = loader.load().path
    needs = path.read_bytes().replace(b"\0GLIBC_2.34\0", b"\0GLIBC_9.34\0")
    assert needs != path.read_bytes()
    (empty / path.name).write_bytes(needs)
    text = failure(empty)
    assert f"{empty / path.name} does not load: it needs a newer C or C++ library than this machine's (glibc" in text
    assert "GLIBC_9.34" in text and "no C++ compiler" in text


def test_a_file_that_is_no_library(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    (empty / loader.load().path.name).write_text("not a library")
    assert f"{loader.load().path.name} does not load: " in failure(empty)


def test_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(errors.TensorFlowError, match="run on Linux only, this is macOS: use a Linux container"):
        loader.load.__wrapped__()


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tfquiver.ops.compiling_and_loading.build",
        f"--tensorflow={tmp_path}",
        f"--lib_dir={tmp_path}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert (
        done.stderr == f"tfquiver.ops.compiling_and_loading.build: {tmp_path}: not one unpacked wheel of TensorFlow\n"
    )
