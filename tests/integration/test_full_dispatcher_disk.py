"""The disk of a dispatcher's --work_dir is full: TensorFlow keeps no data set, and says nothing of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support import numbered
from tests.support.cluster import Server, wait_until
from tests.support.disks import fill, tmpfs
from tests.support.late_service import RECORDS_A_FILE, LateService
from tests.support.privileges import needs_mounts
from tfquiver import errors
from tfquiver.cluster_address import naming
from tfquiver.scanning import tfrecord
from tfquiver.service.dispatcher.journal import journal_reader, journal_repair

pytestmark = [needs_mounts, pytest.mark.slow]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with tmpfs(tmp_path / "disk", 1 << 20) as mounted:
        yield mounted


def test_the_trainer_and_the_dispatchers_log_say_so_and_when_there_is_room_it_is_read(
    tmp_path: Path, disk: Path
) -> None:
    """It was an OutOfRangeError when it was read: `Read less bytes than requested`."""
    service = LateService(tmp_path)
    service.work_dir = disk / "dispatcher"
    with service:
        source = service.start(1).source(1, 50_000)
        others = fill(disk)
        with pytest.raises(errors.ResourceExhaustedError) as raised:
            service.distributed(source)
        assert str(raised.value) == (
            f"the tf.data service dispatcher at {service.dispatcher.address} has not kept the data set that it took "
            "(Read less bytes than requested): its disk is full, or fails: make room in its --work_dir (its log names "
            "it), and distribute it again"
        )
        said = f"{service.work_dir}: the disk has not taken 1 data set of trainers (1000): make room there"
        wait_until(lambda: said in (tmp_path / "dispatcher.log").read_text(), "its log says so")
        others.unlink()
        seen = [numbered.numbers(element) for element in service.distributed(source)]
        numbered.assert_each_once(np.concatenate(seen), RECORDS_A_FILE)


def test_what_does_not_start_on_it_says_which_file_has_no_room(tmp_path: Path, disk: Path) -> None:
    """It was a traceback: of the lock, and of what a journal was torn by when its dispatcher was killed."""
    fill(disk)
    coordinator = ["--port=0", "--coordinator=localhost:1"]
    work_dir = disk / "dispatcher"
    server = Server("tfquiver.service.dispatcher.main", [*coordinator, f"--work_dir={work_dir}"], tmp_path / "log")
    with pytest.raises(RuntimeError, match=f"tfquiver-dispatcher: {work_dir}/dispatcher.lock: No space left on device"):
        server.start()
    torn = work_dir / journal_reader.JOURNAL_DIR / "journal_0"
    with (disk / "others").open("r+b") as others:
        others.truncate(64 << 10)
    torn.parent.mkdir()
    torn.write_bytes(tfrecord.frame(b"")[:-1])
    fill(disk)
    with pytest.raises(errors.ResourceExhaustedError, match="No space left on device"):
        journal_repair.repair(work_dir)
    assert torn.read_bytes() == tfrecord.frame(b"")[:-1]


def test_of_a_dispatcher_that_is_found_by_a_directory_its_directory_is_named(tmp_path: Path, disk: Path) -> None:
    service = LateService(tmp_path)
    service.work_dir = disk / "dispatcher"
    with service:
        service.start(0)
        assert naming.dispatcher_directory(service.work_dir) == str(service.work_dir)
    assert naming.dispatcher_directory(str(disk)) == str(disk / "dispatcher"), "where `tfquiver up` runs"
    assert naming.dispatcher_directory("localhost:5050") == "its --work_dir (its log names it)"
