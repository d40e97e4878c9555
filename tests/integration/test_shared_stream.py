"""One epoch, read by TensorFlow and by a reader without it, in processes of their own that name the same stream."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import tfquiver
from tests.support import numbered, told_reader, warm
from tests.support.daemons import cache_dir_fixture
from tfquiver import errors

FILES, RECORDS, RECORD_BYTES = 3, 600, 300
TOTAL = FILES * RECORDS
EPOCHS = 3
paths = numbered.fixture(FILES, RECORDS, RECORD_BYTES)
cache_dir = cache_dir_fixture()

# Says when it is in an epoch, which is when it has had a batch of it, and reads the rest when it is told to.
_READS = """
import json, sys
import tfquiver
from tests.support import told_reader
given = json.loads(sys.argv[1])
options = dict(
    cache_dir=given["cache_dir"], batch_size=16, stream="shared", order=tfquiver.Shuffled(shuffle_bytes=20_000),
    first_use=tfquiver.FirstUse(cut=tfquiver.CutPolicy(5_000, 10_000, 20_000)),
    reading=tfquiver.Reading(readahead_bytes=10_000),
)
if given["with"] == "tensorflow":
    data = tfquiver.dataset(given["paths"], **options)
    batches = lambda: data.as_numpy_iterator()
else:
    import tfquiver.reader
    data = tfquiver.reader.records(given["paths"], **options)
    batches = lambda: iter(data)
    assert "tensorflow" not in sys.modules
for epoch in range(given["epochs"]):
    sys.stdin.readline()
    print(json.dumps(told_reader.read(batches())), flush=True)
"""


def _told(children: list[subprocess.Popen[str]]) -> list[str]:
    """What each answers to a line."""
    for child in children:
        told_reader.tell(child)
    return [told_reader.answer(child) for child in children]


def test_a_job_of_tensorflow_and_one_without_it_share_their_epochs(paths: list[Path], cache_dir: Path) -> None:
    children = []
    for library, kind in (("tensorflow", "tensorflow"), ("none", "plain")):
        given = {"cache_dir": str(cache_dir), "paths": [*map(str, paths)], "with": library, "epochs": EPOCHS}
        children.append(
            warm.Popen(
                [sys.executable, "-c", _READS, json.dumps(given)], warm_kind=kind,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
        )  # fmt: skip
    try:
        for _ in range(EPOCHS):
            assert _told(children) == ["in", "in"]
            found = [json.loads(line) for line in _told(children)]
            assert all(found), "both had part in it"
            assert Counter([*found[0], *found[1]]) == Counter(range(TOTAL))
        assert [child.wait(60) for child in children] == [0, 0]
    finally:
        for child in children:
            child.kill()
            child.communicate()


def test_who_reads_alone_has_all_of_it_with_default_flags(paths: list[Path], cache_dir: Path) -> None:
    data = tfquiver.dataset([str(path) for path in paths], cache_dir=cache_dir, stream="alone").repeat(2)
    found = Counter(int.from_bytes(record[:8], "little") for record in data.as_numpy_iterator())
    assert found == dict.fromkeys(range(TOTAL), 2)


def test_a_position_in_it_is_refused(paths: list[Path], cache_dir: Path) -> None:
    sources = [str(path) for path in paths]
    shared = iter(tfquiver.dataset(sources, cache_dir=cache_dir, stream="shared", batch_size=16))
    next(shared)
    with pytest.raises(tf.errors.UnimplementedError, match="stream="):
        tf.raw_ops.SerializeIterator(resource_handle=shared._iterator_resource, external_state_policy=0)
    alone = iter(tfquiver.dataset(sources, cache_dir=cache_dir, batch_size=16))
    next(alone)
    saved = tf.raw_ops.SerializeIterator(resource_handle=alone._iterator_resource, external_state_policy=0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="stream="):
        tf.raw_ops.DeserializeIterator(resource_handle=shared._iterator_resource, serialized=saved)


@pytest.mark.parametrize(
    "given",
    [
        {"order": "files"},
        {"order": tfquiver.Shuffled(log_dir="log")},
        {"order": tfquiver.WithReplacement(seed=1)},
        {"resume": True, "job": "j"},
        {"cache_dir": None, "service": "localhost:1"},
    ],
)
def test_what_does_not_go_with_a_stream_is_said(paths: list[Path], cache_dir: Path, given: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="stream="):
        tfquiver.dataset(str(paths[0]), **{"cache_dir": cache_dir, "stream": "s", **given})


def test_workers_have_no_part_in_it(paths: list[Path], cache_dir: Path) -> None:
    dispatcher = tf.data.experimental.service.DispatchServer()
    data = tfquiver.dataset(str(paths[0]), cache_dir=cache_dir, stream="s")
    with pytest.raises(errors.InvalidArgumentError, match="stream="):
        data.apply(tfquiver.distribute(dispatcher.target))
    stock = tf.data.experimental.service.distribute(
        processing_mode=tf.data.experimental.service.ShardingPolicy.DYNAMIC, service=dispatcher.target
    )
    worker = tf.data.experimental.service.WorkerServer(
        tf.data.experimental.service.WorkerConfig(dispatcher_address=dispatcher.target.split("://")[1])
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="stream="):
        next(iter(data.apply(stock)))
    del worker
