"""Steps of a training are known to the coordinator, and what it knows is shown: `model.fit`, loops of one's own."""

from __future__ import annotations

import copy
import json
import logging
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import keras
import psutil
import pytest
import tensorflow as tf

import tfquiver
import tfquiver.keras
from tests.support import numbered, warm
from tfquiver.cli import calls
from tfquiver.cli.status_asked_watched_explained import explain, status
from tfquiver.cli.status_tables_and_warnings import status_view
from tfquiver.data_sources_found_and_registered import made_datasets
from tfquiver.grpc_plumbing import rpc
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.tensorflow_client.step_times import accelerators, step_monitor, step_reports

BATCH = 8
GIVE_UP_S = 60.0
STEP_S = 0.01
SCALARS = {"step_ms", "between_ms", "hit_ratio", "stall_ms", "bytes_per_s", "store_bytes"}

paths = numbered.fixture(files=2, records_a_file=400, record_bytes=2000)


@pytest.fixture(autouse=True)
def own_data_sets() -> None:
    """Of a step of no job all data sets of the process are told, also those of earlier tests, which TensorFlow keeps:
    their servers are gone."""
    for earlier in made_datasets.made():
        made_datasets.forget(earlier)


@pytest.fixture
def cache_dir(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "cache"
    endpoints.close_all()
    if (tmp_path / "cache" / "node.json").exists() and psutil.pid_exists(pid := daemon(tmp_path / "cache")):
        process = psutil.Process(pid)
        process.terminate()
        process.wait(60)


def daemon(cache_dir: Path) -> int:
    return int(json.loads((cache_dir / "node.json").read_text())["pid"])


def parsed(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    numbers = tf.io.decode_raw(tf.strings.substr(records, 0, 8), tf.int64)
    return tf.cast(numbers, tf.float32), tf.zeros(tf.shape(numbers))


def known(cache_dir: Path, right: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
    """What status says of the job that reads, if that is right."""
    try:
        told = status.collect(str(cache_dir))["sessions"]
    except tfquiver.errors.TfquiverError:
        return None  # it is being started again
    return next((info for info in told if right(info)), None)


class Until(keras.callbacks.Callback):  # type: ignore[misc]
    """Ends the training when `found` has found something; makes steps take their time."""

    def __init__(self, *found: Callable[[], Any]) -> None:
        super().__init__()
        self._found, self.seen, self._give_up_at = list(found), list[Any](), time.monotonic() + GIVE_UP_S

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        time.sleep(STEP_S)
        if self._found and batch % 20 == 0 and (seen := self._found[0]()):
            self.seen.append(seen)
            self._found.pop(0)
        if not self._found or time.monotonic() > self._give_up_at:
            self.model.stop_training = True


def fit(cache_dir: Path, paths: list[Path], until: Until, *callbacks: Any, verbose: int = 0, **arguments: Any) -> None:
    data = tfquiver.dataset(paths, cache_dir=cache_dir, batch_size=BATCH, **arguments).map(parsed).repeat()
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    model.fit(data, steps_per_epoch=100, epochs=1000, callbacks=[*callbacks, until], verbose=verbose, shuffle=False)


def scalars(log_dir: Path) -> dict[str, list[tuple[int, float]]]:
    found = defaultdict(list)
    for record in tf.data.TFRecordDataset([str(path) for path in log_dir.glob("events.*")]):
        event = tf.compat.v1.Event.FromString(record.numpy())
        for value in event.summary.value:
            assert value.tag.startswith("tfquiver/")
            found[value.tag.removeprefix("tfquiver/")].append((event.step, float(tf.make_ndarray(value.tensor))))
    return found


def measured(cache_dir: Path) -> Callable[[], Any]:
    return lambda: known(cache_dir, lambda info: "step_ms" in info and "hit_share" in info)


def test_fit_tells_the_coordinator_and_tensorboard(cache_dir: Path, paths: list[Path], tmp_path: Path) -> None:
    """With what everybody has who sets nothing."""
    until = Until(measured(cache_dir))
    fit(cache_dir, paths, until, tfquiver.keras.StepMonitor(log_dir=tmp_path / "logs"))
    (info,) = until.seen
    assert info["accelerators"] == 1
    assert 0 < info["step_ms"] < 1000
    assert 1000 * STEP_S * 0.9 < info["between_ms"] < 1000
    shown = scalars(tmp_path / "logs")
    assert set(shown) == SCALARS
    assert shown["hit_ratio"][-1][1] == 1.0, "the scan has kept it"
    assert shown["store_bytes"][-1][1] == 0.0
    assert shown["bytes_per_s"][-1][1] > 0
    steps = [step for step, _ in shown["step_ms"]]
    assert steps == sorted(steps)
    assert steps[-1] > 100, "the optimizer's"


def test_the_progress_line_and_the_last_line_say_what_the_cache_does(
    cache_dir: Path, paths: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    seen = list[dict[str, Any]]()
    looks = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: seen.append(dict(logs or {})))
    until = Until(lambda: bool(seen) and {"hit_ratio", "stall_ms"} <= seen[-1].keys())
    fit(cache_dir, paths, until, tfquiver.keras.StepMonitor(), looks, verbose=1)
    assert seen[-1]["hit_ratio"] == 1.0 and seen[-1]["stall_ms"] >= 0.0
    shown = capsys.readouterr().out
    assert "hit_ratio: 1.0" in shown and "stall_ms: " in shown
    last = shown.strip().splitlines()[-1]
    assert last.startswith("tfquiver: of the ") and "came from the cache (100 %), 0 B from the object store" in last


FIT = """
import sys
import keras, tensorflow as tf, tfquiver, tfquiver.keras
from pathlib import Path
def parsed(records):
    numbers = tf.io.decode_raw(tf.strings.substr(records, 0, 8), tf.int64)
    return tf.cast(numbers, tf.float32), tf.zeros(tf.shape(numbers))
class Ends(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if sys.argv[4] == "fails":
            raise KeyboardInterrupt
model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
data = tfquiver.dataset(sys.argv[1], cache_dir=sys.argv[2], batch_size=8, job="run").map(parsed)
model.fit(data, callbacks=[tfquiver.keras.StepMonitor(), Ends()], verbose=int(sys.argv[3]), shuffle=False)
"""


@pytest.mark.parametrize(("verbose", "ends"), [("2", "well"), ("0", "well"), ("2", "fails")])
def test_a_run_says_what_was_saved_however_it_ends(
    cache_dir: Path, paths: list[Path], tmp_path: Path, verbose: str, ends: str
) -> None:
    """As short as it is: shorter than the time between two reports. With the logging that everybody has."""
    command = [sys.executable, "-c", FIT, f"{paths[0].parent}/*", str(cache_dir), verbose, ends]
    env = os.environ | {"COLUMNS": "80"}
    done = warm.run(command, warm_kind="keras", capture_output=True, text=True, timeout=200, env=env)
    assert (done.returncode == 0) == (ends == "well"), done.stderr
    where = done.stdout if verbose != "0" else done.stderr
    lines = [line for line in where.splitlines() if line.startswith("tfquiver: of the ")]
    said = done.stdout + done.stderr
    assert len(lines) == said.count("tfquiver: of the ") == 1, said
    assert "that this job has read" in lines[0] and "came from the cache" in lines[0]


def test_the_last_line_is_of_what_was_read() -> None:
    reply = coordinator_pb2.ReportStepsReply(known=True)
    assert step_monitor.saved_line(reply) == ""
    reply.read_bytes, reply.store_bytes, reply.stall_share = 4 * 10**9, 10**9 + 1, 0.25
    assert step_monitor.saved_line(reply) == (
        "tfquiver: of the 4.0 GB that this job has read 3.0 GB came from the cache (74 %), 1.0 GB from the object "
        "store; lately it waited for data for 25% of its time"
    )


def test_fit_goes_on_without_its_coordinator_and_tells_the_next_one(cache_dir: Path, paths: list[Path]) -> None:
    killed = []

    def kill() -> bool:
        killed.append(pid := daemon(cache_dir))
        os.kill(pid, signal.SIGKILL)
        return True

    def told_the_next() -> Any:
        with suppress(FileNotFoundError):  # the next one is about to write it
            return daemon(cache_dir) not in killed and measured(cache_dir)()
        return False

    until = Until(measured(cache_dir), kill, told_the_next)
    fit(cache_dir, paths, until, tfquiver.keras.StepMonitor(), job="goes-on")
    assert len(until.seen) == 3
    assert until.seen[-1]["job"] == "goes-on"


def test_a_loop_of_ones_own(cache_dir: Path, paths: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Which waits for as long as it computes."""
    data = tfquiver.dataset(paths, cache_dir=cache_dir, batch_size=BATCH, job="own")
    give_up_at, told = time.monotonic() + GIVE_UP_S, dict[str, Any]()
    iterator = iter(data.repeat())  # kept: of a reader that has left nothing is told
    for number, _ in enumerate(iterator):
        time.sleep(STEP_S)
        with tfquiver.step("own", records=BATCH, accelerators=4):
            time.sleep(STEP_S)
        if number % 50 == 0 and (told := explained(cache_dir, "own"))["steps"].get("own", {}).get("waited_share"):
            break
        assert time.monotonic() < give_up_at, told
    steps = told["steps"]["own"]
    assert (steps["accelerators"], steps["processes"], steps["batch_records"]) == (4, 1, BATCH)
    assert steps["step_s"] >= STEP_S
    assert steps["waited_share"] == pytest.approx(0.5, abs=0.15)
    explain.show(told, calls.console())
    assert "4 accelerators in 1 process; steps of 8 records" in capsys.readouterr().out
    status_view.show(status.collect(str(cache_dir)), calls.console())
    assert "between" in capsys.readouterr().out


def explained(cache_dir: Path, job: str) -> dict[str, Any]:
    with rpc.channel(json.loads((cache_dir / "node.json").read_text())["coordinator"]) as channel:
        stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
        try:
            reply = stub.Explain(coordinator_pb2.ExplainRequest(name=job), timeout=10)
        except grpc.RpcError:
            return {"steps": {}}  # it has not been seen to read yet
    told: dict[str, Any] = json.loads(reply.json)
    return told


def test_a_place_that_cannot_be_written_stops_no_training(
    cache_dir: Path, paths: list[Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        fit(cache_dir, paths, Until(lambda: True), tfquiver.keras.StepMonitor(log_dir=tmp_path / "file" / "logs"))
    assert "no scalars from now on" in caplog.text, "the last word was said, shorter than an interval as it was"


@pytest.mark.parametrize(
    ("devices", "there"),
    [
        (["/job:worker/replica:0/task:1/device:GPU:0", "/job:worker/replica:0/task:1/device:GPU:1"], 2),
        (["/job:localhost/replica:0/task:0/device:CPU:0"], 1),
        (["nonsense", 7], 1),
    ],
)
def test_accelerators_are_those_of_the_strategy_on_this_machine(devices: list[Any], there: int) -> None:
    strategy = SimpleNamespace(extended=SimpleNamespace(worker_devices=devices))
    assert accelerators.of_process(strategy) == there
    with tf.distribute.MirroredStrategy(["CPU:0"]).scope():
        assert accelerators.of_process() == 1


@pytest.mark.parametrize(
    "wrong", [{"job": ""}, {"job": 7}, {"batch_size": 0}, {"accelerators": -1}, {"service": "no"}, {"connection": 3}]
)
def test_arguments_that_cannot_be_right_are_named(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(tf.errors.InvalidArgumentError, match=name):
        tfquiver.keras.StepMonitor(**wrong)


@pytest.mark.parametrize("wrong", [{"job": []}, {"job": ""}, {"records": -1}, {"records": True}, {"accelerators": {}}])
def test_those_of_a_step_too(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(tf.errors.InvalidArgumentError, match=name):
        tfquiver.step(**wrong)


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # as Keras puts it
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_steps_count_in_every_epoch_when_nobody_knows_where_data_end() -> None:
    """Keras begins a step that finds none, in each of them, and says nothing of its end; nor of one that fails."""
    data = numbers().filter(lambda x, y: True).repeat(5)
    model, monitor = linear(), tfquiver.keras.StepMonitor("unknown length", batch_size=1)
    with pytest.raises(ValueError, match="third"):
        fails = keras.callbacks.LambdaCallback(on_train_batch_begin=fails_at_third)
        model.fit(data, callbacks=[monitor, fails], shuffle=False, verbose=0)
    before = step_reports.subject_of("unknown length").counts.totals.steps
    for _ in range(3):
        model.fit(data, callbacks=[copy.deepcopy(monitor)], shuffle=False, verbose=0)
    assert step_reports.subject_of("unknown length").counts.totals.steps == before + 15


def numbers() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors((tf.zeros([1, 1]), tf.zeros([1, 1])))


def linear() -> keras.Model:
    model = keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def fails_at_third(batch: int, logs: Any = None) -> None:
    if batch == 2:
        raise ValueError("the third fails")


def test_a_forked_child_begins_anew() -> None:
    with tfquiver.step("forks"):
        pass
    before = step_reports.subject_of("forks")
    if not (child := os.fork()):
        anew = step_reports.subject_of("forks")
        with tfquiver.step("forks"):
            pass
        os._exit(0 if anew is not before and anew.counts.process != before.counts.process else 1)
    assert os.waitpid(child, 0)[1] == 0
