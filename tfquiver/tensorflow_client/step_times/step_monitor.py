"""`tfquiver.keras.StepMonitor`: steps of `model.fit` told to the coordinator, and to TensorBoard what it knows."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from typing import Any

import keras
import tensorflow as tf
from absl import logging

from tfquiver.cluster_address import naming
from tfquiver.roles_and_tokens import own_token
from tfquiver.sizes_durations_amounts.amounts import of_bytes
from tfquiver.tensorflow_client.step_times import accelerators as devices
from tfquiver.tensorflow_client.step_times import step_reports
from tfquiver.tensorflow_client.step_times.step_counts import MOST_RECORDS, StepTotals
from tfquiver.tensorflow_client.tf_errors import raised_as_both
from tfquiver.users_arguments_checked.checks import absolute, check_integer, check_name
from tfquiver.users_arguments_checked.option_groups import Connection, check_group

_LAST_WORD_S = 4.0  # two heartbeats of a node
_IN_PROGRESS = ("hit_ratio", "stall_ms")  # scalars that the progress line of `fit` shows, too


class StepMonitor(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Tells the coordinator how long steps of `fit` take and on how many accelerators, and TensorBoard what it knows.

    `model.fit(data, callbacks=[tfquiver.keras.StepMonitor(log_dir="logs")])` is all: the job and its cluster are those
    of the data sets that this process has made. It is said every five seconds, on a thread of its own. No failure of it
    stops a training: a coordinator that is away, or of an older version, is a line in the log.

    Scalars, each five seconds, by the optimizer's step: `tfquiver/step_ms` (the average step; Keras fetches its data
    within it) and `tfquiver/between_ms` (until the next: other callbacks), and of the whole job, all its readers and
    processes: `tfquiver/hit_ratio` (of what it was handed, from the cache), `tfquiver/stall_ms` (of the average step:
    as long as the pipeline waited for records), `tfquiver/bytes_per_s` (what it reads), `tfquiver/store_bytes` (what
    it has read from the object store since the coordinator knows it).

    `fit`'s progress line shows `hit_ratio` and `stall_ms`, too; at the end a line says what the cache has saved (on
    standard error where `verbose=0`). A `fit` that an exception ends has its line when the process ends.

    Args:
      job: as `tfquiver.dataset(..., job=)` has it; None: the data sets that this process has made.
      log_dir: directory for TensorBoard, anything that `tf.io.gfile` can write; None: no scalars. Where several
        processes train together, give it to one of them: the numbers of a job are the same in all.
      batch_size: records that this process takes in a step; None: the coordinator is not told.
      accelerators: of this process; None: those of the model's distribution strategy, or without one all that
        TensorFlow sees.
      cache_dir: with `job`, where this process makes no data set of that job: the directory of its cache,
      service: or the address of the coordinator.
      connection: then, too: `tfquiver.Connection(...)`: the token.

    Raises InvalidArgumentError naming an argument that cannot be right.
    """

    @raised_as_both()
    def __init__(
        self,
        job: str | None = None,
        *,
        log_dir: str | os.PathLike[str] | None = None,
        batch_size: int | None = None,
        accelerators: int | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        service: str | None = None,
        connection: Connection = Connection(),
    ) -> None:
        super().__init__()
        check_name("job", job)
        check_group("connection", connection, Connection)
        self._batch = check_integer("batch_size", batch_size, 1, MOST_RECORDS) if batch_size is not None else 0
        if accelerators is not None:
            check_integer("accelerators", accelerators, 1, devices.MOST)
        self._accelerators = accelerators
        self._log_dir = os.fspath(log_dir) if log_dir is not None else ""
        self._subject = step_reports.subject_of(job)
        if cache_dir is not None or service is not None:
            directory, address = naming.cluster(cache_dir, service)
            self._subject.where = address or absolute("cache_dir", directory)
            self._subject.token = own_token.of_user(connection.auth_token_file)
        self._writer: Any = None
        self._shown: step_reports.Told | None = None
        self._began_with: step_reports.Told | None = None
        self._totals = StepTotals()
        self._steps = self._began = 0
        self._counts_by_numbers = False
        self._progress: dict[str, float] = {}

    def on_train_begin(self, logs: Any = None) -> None:
        counts = self._subject.counts
        counts.pause()
        self._subject.resting = False
        counts.waits_inside = True
        counts.accelerators = self._accelerators or devices.of_process(getattr(self.model, "distribute_strategy", None))
        self._shown, self._totals, self._progress = self._subject.told, counts.totals, {}
        self._began_with = self._subject.told
        atexit.register(self._last_word)  # where an exception ends `fit`, on_train_end is not called

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._subject.counts.pause()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._began = batch
        if not self._subject.watched:
            step_reports.reporter().watch(self._subject)
        self._subject.counts.begin()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        made = self._made(batch)
        self._steps += made
        self._subject.counts.end(made, made * self._batch)
        if self._subject.told is not self._shown:
            self._show()
        if self._progress and isinstance(logs, dict):  # which Keras's progress line, called after this, shows
            logs.update(self._progress)

    def on_train_end(self, logs: Any = None) -> None:
        self._last_word()
        self._subject.resting = True
        if self._subject.told is not self._shown:
            self._show()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _last_word(self) -> None:
        """Once for each `fit` of which the coordinator has heard something."""
        atexit.unregister(self._last_word)
        self._subject.counts.pause()
        step_reports.reporter().tell_once_more(self._subject, _LAST_WORD_S)
        told = self._subject.told
        if told is None or told is self._began_with or told.reply is None or not (line := saved_line(told.reply)):
            return
        with contextlib.suppress(OSError):  # nobody reads it
            print(line, file=sys.stdout if self.params.get("verbose") else sys.stderr, flush=True)

    def _made(self, batch: int) -> int:
        """Steps since the last call. Keras says the number of the last one where several are made in one execution;
        before 3.8 it said that of the first."""
        made = batch - self._began + 1
        self._counts_by_numbers = self._counts_by_numbers or made > 1
        return made if self._counts_by_numbers else max(int(getattr(self.model, "steps_per_execution", 1) or 1), 1)

    def _show(self) -> None:
        """Never raises: training is more than its pictures."""
        told = self._shown = self._subject.told
        since, self._totals = self._totals, told.totals if told else self._totals
        if told is None:
            return
        scalars = _scalars(since, told)
        self._progress = {name: scalars[name] for name in _IN_PROGRESS if name in scalars} or self._progress
        if not self._log_dir:
            return
        try:
            self._write(scalars)
        except Exception as error:  # noqa: BLE001 - a full disk, a writer of another TensorFlow: training goes on
            logging.warning("log_dir=%r: no scalars from now on: %s", self._log_dir, error)
            self._log_dir = ""

    def _write(self, scalars: dict[str, float]) -> None:
        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self._log_dir, name="tfquiver")
        optimizer = getattr(self.model, "optimizer", None)
        step = self._steps if optimizer is None else int(optimizer.iterations)
        # tf.summary.scalar needs the package of TensorBoard, which TensorFlow does not bring any more.
        metadata = tf.compat.v1.SummaryMetadata(data_class=1)  # DATA_CLASS_SCALAR
        metadata.plugin_data.plugin_name = "scalars"
        with self._writer.as_default():
            for name, value in scalars.items():
                tf.summary.write(f"tfquiver/{name}", tf.constant(value, tf.float32), step=step, metadata=metadata)
        self._writer.flush()


def saved_line(reply: step_reports.Reply) -> str:
    """What the cache has done for the job, all its processes, since the coordinator first heard of it. Empty: nothing
    was read."""
    read, store = reply.read_bytes, min(reply.store_bytes, reply.read_bytes)
    if not read:
        return ""
    waits = ""
    if reply.HasField("stall_share"):
        waits = f"; lately it waited for data for {reply.stall_share:.0%} of its time"
    return (
        f"tfquiver: of the {of_bytes(read)} that this job has read {of_bytes(read - store)} came from the cache "
        f"({100 * (read - store) // read} %), {of_bytes(store)} from the object store{waits}"
    )


def _scalars(before: StepTotals, told: step_reports.Told) -> dict[str, float]:
    shown: dict[str, float] = {}
    now, reply = told.totals, told.reply
    steps = now.steps - before.steps
    if steps > 0:
        shown["step_ms"] = 1000 * (now.step_s - before.step_s) / steps
        shown["between_ms"] = 1000 * (now.between_s - before.between_s) / steps
    if reply is None:
        return shown
    shown["store_bytes"] = reply.store_bytes
    if reply.HasField("hit_share"):
        shown["hit_ratio"] = reply.hit_share
    if reply.HasField("bytes_per_s"):
        shown["bytes_per_s"] = reply.bytes_per_s
    if steps > 0 and reply.HasField("stall_share"):
        shown["stall_ms"] = reply.stall_share * (shown["step_ms"] + shown["between_ms"])
    return shown
