"""`tfquiver.reader` as users write it, against a real node: whole epochs, states, waits that end, forks, the exit."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import psutil
import pytest

import tfquiver
import tfquiver.reader
from tests.support import numbered
from tests.support.daemons import cache_dir_fixture, daemons
from tfquiver import errors
from tfquiver.data_sources_found_and_registered import made_datasets
from tfquiver.reader import Batch, Records

FILES, RECORDS, RECORD_BYTES = 3, 600, 300
TOTAL = FILES * RECORDS
SMALL_SHARDS = tfquiver.FirstUse(cut=tfquiver.CutPolicy(5_000, 10_000, 20_000))
SMALL_POOL = tfquiver.Shuffled(shuffle_bytes=20_000)
paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)
cache_dir = cache_dir_fixture()


@pytest.fixture
def data(paths: list[Path], cache_dir: Path) -> Records:
    return tfquiver.reader.records(
        [str(path) for path in paths], cache_dir=cache_dir, batch_size=64, order=SMALL_POOL, first_use=SMALL_SHARDS,
        reading=tfquiver.Reading(readahead_bytes=20_000),
    )  # fmt: skip


def numbers(batches: Iterable[Batch]) -> list[int]:
    return [int.from_bytes(record[:8], "little") for batch in batches for record in batch]


def test_default_flags_give_each_record_once_an_epoch_in_another_order(paths: list[Path], cache_dir: Path) -> None:
    data = tfquiver.reader.records([str(path) for path in paths], cache_dir=cache_dir)
    assert (data.num_records, data.num_bytes) == (TOTAL, sum(path.stat().st_size for path in paths))
    first, second = numbers(data), numbers(data)
    assert sorted(first) == sorted(second) == list(range(TOTAL))
    assert first != second


def test_a_batch_is_read_only_memory_without_a_copy(data: Records) -> None:
    with data.epoch() as epoch:
        batch = next(epoch)
    assert len(batch) == 64 and batch.nbytes == 64 * RECORD_BYTES and batch[-1].readonly
    assert batch.data.ctypes.data == np.frombuffer(batch[0], np.uint8).ctypes.data
    assert [bytes(record) for record in batch] == batch.to_list()
    assert batch.data.tobytes() == b"".join(batch.to_list())
    with pytest.raises(ValueError):
        batch.data[0] = 1


def test_large_records_lie_as_they_were_read(tmp_path: Path, cache_dir: Path) -> None:
    files = numbered.write(tmp_path / "large", 1, 40, 30_000)
    data = tfquiver.reader.records([str(path) for path in files], cache_dir=cache_dir, batch_size=16)
    assert sorted(numbers(data)) == list(range(40))
    apart, together = next(data.epoch()), next(data.epoch(contiguous=True))
    assert apart.data.tobytes() == b"".join(apart.to_list())
    assert together.data.ctypes.data == np.frombuffer(together[0], np.uint8).ctypes.data
    assert together.data.tobytes() == b"".join(together.to_list())
    for batch in (apart, together):
        own = batch.copied()
        assert own.flags.writeable and own.tobytes() == batch.data.tobytes()
        own[:] = 0
        assert batch.data.any(), "memory of its own"


@pytest.mark.parametrize("batches", [0, 1, 7, 20, TOTAL // 64 + 1])
def test_a_state_goes_on_exactly_where_it_was(data: Records, batches: int) -> None:
    with data.epoch() as epoch:
        before = numbers(batch for _, batch in zip(range(batches), epoch, strict=False))
        state = epoch.state()
    assert len(state) < 2000
    with data.epoch(state) as rest:
        assert rest.state()
        assert sorted([*before, *numbers(rest)]) == list(range(TOTAL))


def test_a_state_of_other_data_or_damaged_is_refused(data: Records, tmp_path: Path, cache_dir: Path) -> None:
    state = data.epoch().state()
    other = tfquiver.reader.records(
        str(numbered.write(tmp_path / "other", 1, 10, 100)[0]), cache_dir=cache_dir, batch_size=2
    )
    with pytest.raises(errors.InvalidArgumentError, match="another data set"):
        other.epoch(state)
    with pytest.raises(errors.InvalidArgumentError, match="damaged"):
        data.epoch(state[:-1] + bytes([state[-1] ^ 1]))


def test_who_waits_is_released_by_a_close_in_another_thread(data: Records, cache_dir: Path) -> None:
    (node,) = daemons(cache_dir)
    epoch = data.epoch()
    next(epoch)
    node.suspend()
    try:
        timer = threading.Timer(0.3, epoch.stop)
        timer.start()
        with pytest.raises(errors.CancelledError_):
            for _ in epoch:
                pass
    finally:
        node.resume()
        timer.join()


_WAITS = """
import sys, tfquiver.reader
assert "tensorflow" not in sys.modules
data = tfquiver.reader.records(sys.argv[2:], cache_dir=sys.argv[1], batch_size=8)
epoch = data.epoch()
first = next(epoch)
if {wait}:
    print("waits", flush=True)
    sys.stdin.readline()
    for batch in data:
        pass
assert "tensorflow" not in sys.modules
"""


@pytest.fixture
def script(paths: list[Path], cache_dir: Path, data: Records) -> list[str]:
    return [str(cache_dir), *map(str, paths)]


def test_ctrl_c_ends_a_wait_at_once(script: list[str], cache_dir: Path) -> None:
    (node,) = daemons(cache_dir)
    command = [sys.executable, "-c", _WAITS.format(wait=True), *script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdin and child.stdout and child.stderr
        assert child.stdout.readline() == b"waits\n"
        node.suspend()
        try:
            child.stdin.write(b"\n")
            child.stdin.flush()
            waiting = psutil.Process(child.pid)
            began_s = waiting.cpu_times().user
            time.sleep(1)  # it waits in the library now, or is about to: either has to end
            child.send_signal(signal.SIGINT)
            assert child.wait(30) == -signal.SIGINT, began_s
            assert b"KeyboardInterrupt" in child.stderr.read()
        finally:
            node.resume()


def test_a_process_may_end_in_the_middle_of_an_epoch_and_imports_no_tensorflow(script: list[str]) -> None:
    command = [sys.executable, "-X", "dev", "-c", _WAITS.format(wait=False), *script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


_PRINTS = """
import os, sys
from pathlib import Path
import tfquiver.reader
data, records = tfquiver.reader.records(sys.argv[3:], cache_dir=sys.argv[2], batch_size=64), 0
for batch in data:
    records += len(batch)
    for number in (1, 2):
        os.write(number, b"what a library prints")
Path(sys.argv[1]).write_text(f"{records} {[os.readlink(f'/proc/self/fd/{number}') for number in range(3)]}")
"""


def test_a_trainer_whose_standard_streams_are_closed_prints_into_no_connection(
    paths: list[Path], cache_dir: Path, tmp_path: Path
) -> None:
    """They were its connection to the node, which it starts itself, and ended it."""
    arguments = [str(tmp_path / "read"), str(cache_dir), *map(str, paths)]
    command = [sys.executable, "-c", _PRINTS, *arguments]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command], timeout=120, check=False)
    assert done.returncode == 0
    assert (tmp_path / "read").read_text() == f"{TOTAL} {['/dev/null'] * 3}"
    (node,) = daemons(cache_dir)
    assert os.readlink(f"/proc/{node.pid}/fd/2") == str(cache_dir / "log" / "node.log")  # noqa: PTH115


def test_a_forked_child_reads_by_itself_and_leaves_the_parents_iterator_alone(data: Records) -> None:
    epoch = data.epoch()
    first = next(epoch)
    if not (child := os.fork()):
        signal.alarm(60)
        status = 1
        try:
            with pytest.raises(errors.InvalidArgumentError, match="before a fork"):
                next(epoch)
            assert sorted(numbers(data)) == list(range(TOTAL))
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert sorted(numbers([first, *epoch])) == list(range(TOTAL))


def test_a_pickled_one_reads_elsewhere(data: Records) -> None:
    again = pickle.loads(pickle.dumps(data))
    assert sorted(numbers(again)) == list(range(TOTAL))


def test_who_names_the_same_stream_shares_its_epochs(paths: list[Path], cache_dir: Path) -> None:
    def made() -> Records:
        return tfquiver.reader.records(
            [str(path) for path in paths], cache_dir=cache_dir, batch_size=16, order=SMALL_POOL, stream="shared",
            first_use=SMALL_SHARDS, reading=tfquiver.Reading(readahead_bytes=10_000),
        )  # fmt: skip

    found: list[list[int]] = [[], []]
    both = [made(), made()]
    opened = [data.epoch() for data in both]
    firsts = [next(epoch) for epoch in opened]  # both are in it now

    def read(who: int) -> None:
        found[who] = numbers([firsts[who], *opened[who]])

    threads = [threading.Thread(target=read, args=(who,)) for who in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(found) and Counter([*found[0], *found[1]]) == Counter(range(TOTAL))
    assert sorted(numbers(both[0])) == list(range(TOTAL)), "the next epoch"


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"stream": "s", "order": "files"}, "stream="),
        ({"order": tfquiver.Deterministic(1, with_position=True)}, "with_position"),
        ({"cache_dir": None, "service": "localhost:1"}, "cache_dir="),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_what_cannot_be_right_is_named(
    paths: list[Path], cache_dir: Path, given: dict[str, object], match: str
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=match):
        tfquiver.reader.records(str(paths[0]), **{"cache_dir": cache_dir, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize("job", ["own", None])
def test_the_steps_of_a_loop_are_told_without_tensorflow(paths: list[Path], cache_dir: Path, job: str | None) -> None:
    """They were to nobody: only data sets of TensorFlow were known to who tells."""
    for earlier in made_datasets.made():  # which TensorFlow keeps: a step of no job is told of them, too
        made_datasets.forget(earlier)
    data = tfquiver.reader.records([str(path) for path in paths], cache_dir=cache_dir, batch_size=8, job=job)
    give_up_at = time.monotonic() + 60
    told: list[float] = []
    with data.epoch() as first:  # kept: of a reader that has left nothing is told
        next(first)
        while not told and time.monotonic() < give_up_at:
            for _ in range(20):
                with tfquiver.step(job, records=8):
                    time.sleep(0.01)
            told = [one["step_ms"] for one in tfquiver.status(str(cache_dir))["sessions"] if one.get("step_ms")]
    assert told and told[0] >= 10
