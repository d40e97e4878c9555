"""For `model.fit`: backups of the model together with the place in the data (docs/resume.md); step times told."""

from __future__ import annotations

import base64
import json
import operator
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any, SupportsIndex

import keras
import tensorflow as tf
from absl import logging

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.tensorflow_client import resumption
from tfquiver.tensorflow_client.step_times.step_monitor import StepMonitor as StepMonitor
from tfquiver.tensorflow_client.tf_errors import raised_as_both

_STATE, _WEIGHTS = "state.json", "{}.weights.h5"


class BackupAndRestore(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """As `keras.callbacks.BackupAndRestore`, but goes back to the backup's place in the data too.

    Keras restores the weights, the optimizer and the number of the epoch, and begins that epoch's data anew. This one
    also keeps where each data set made with `resume=True` was, and takes it there again: what the saved model has not
    been trained on comes (again), the rest of the epoch does not. Without a backup everything begins anew. Weights and
    place are replaced together: a kill while they are written leaves the pair before.

    Args:
      backup_dir: directory for this run's backup alone; anything that `tf.io.gfile` can write.
      save_freq: "epoch", or after how many batches.
      delete_checkpoint: delete the backup when `fit` has finished.
      data: what `fit` trains on, or several such: the data sets with `resume=True` that it is made of are kept and
        moved, no others. None: all that this process has, those for validation included.

    Raises in `fit`: InvalidArgumentError when there is no data set with `resume=True`, the model is not built, or Keras
    cannot know how many batches an epoch has (see `known_length`); UnavailableError when the coordinator is away at the
    beginning. A backup that fails for that reason later is left out, and said in the log.
    """

    @raised_as_both()
    def __init__(
        self,
        backup_dir: str | PurePath,
        save_freq: str | int = "epoch",
        delete_checkpoint: bool = True,
        data: tf.data.Dataset | Sequence[tf.data.Dataset] | None = None,
    ) -> None:
        super().__init__()
        if save_freq != "epoch" and (isinstance(save_freq, bool) or not isinstance(save_freq, int) or save_freq < 1):
            raise errors.InvalidArgumentError(f'save_freq={save_freq!r}: must be "epoch" or a number of batches')
        if not str(backup_dir):
            raise errors.InvalidArgumentError("backup_dir: is empty")
        self._dir, self._save_freq, self._delete = str(backup_dir), save_freq, delete_checkpoint
        self._data = None if data is None else _sources([data] if isinstance(data, tf.data.Dataset) else list(data))
        if self._data == []:
            raise errors.InvalidArgumentError(
                "data=: there is no tfquiver.dataset(..., resume=True) in it, or it cannot be seen (after interleave)"
            )
        self._epoch = self._number = self._batch = 0
        self._saved_batch = -1

    @raised_as_both()
    def on_train_begin(self, logs: Any = None) -> None:
        data = self._resumables()
        if not data:
            raise errors.InvalidArgumentError("BackupAndRestore: make the training data with job=... and resume=True")
        if not self.model.built:
            raise errors.InvalidArgumentError("BackupAndRestore: build the model before fit()")
        if self.params.get("steps") is None:
            raise errors.InvalidArgumentError(
                "BackupAndRestore: Keras would take the batches of the first epoch, of which a part may be left, for "
                "those of every epoch: pass fit() tfquiver.keras.known_length(data, batches)"
            )
        state = self._state()
        for one in data:
            saved = state["positions"].get(_name(one)) if state else None
            one.go_to(types_pb2.Position() if saved is None else _decoded(saved))
        if state is None:
            return
        if self.model.optimizer is not None and not self.model.optimizer.built:
            self.model.optimizer.build(self.model.trainable_variables)
        self.model.load_weights(self._path(state["weights"]))
        self._number = state["number"]
        self.model._initial_epoch = self._epoch = state["epoch"]

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch, self._saved_batch = epoch, -1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._save_freq != "epoch" and batch - self._saved_batch >= int(self._save_freq):
            self._saved_batch = batch
            self._save(self._epoch, epoch_over=False)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._save(epoch + 1, epoch_over=True)

    def on_train_end(self, logs: Any = None) -> None:
        if self._delete and tf.io.gfile.exists(self._dir):
            tf.io.gfile.rmtree(self._dir)

    def _save(self, epoch: int, epoch_over: bool) -> None:
        try:
            positions = {
                _name(one): _encoded(one.after_epoch() if epoch_over else one.now()) for one in self._resumables()
            }
        except errors.TfquiverError as error:
            logging.warning("no backup in epoch %d: %s", epoch, error)
            return
        before = self._number
        self._number += 1
        tf.io.gfile.makedirs(self._dir)
        weights = _WEIGHTS.format(self._number)
        self.model.save_weights(self._path(weights), overwrite=True)
        state = {"epoch": epoch, "number": self._number, "weights": weights, "positions": positions}
        with tf.io.gfile.GFile(self._path("next-" + _STATE), "w") as out:
            out.write(json.dumps(state))
        tf.io.gfile.rename(self._path("next-" + _STATE), self._path(_STATE), overwrite=True)
        if tf.io.gfile.exists(self._path(_WEIGHTS.format(before))):
            tf.io.gfile.remove(self._path(_WEIGHTS.format(before)))

    def _resumables(self) -> list[resumption.Resumable]:
        return resumption.made() if self._data is None else self._data

    def _state(self) -> Any:
        """None: there is no backup."""
        if not tf.io.gfile.exists(self._path(_STATE)):
            return None
        with tf.io.gfile.GFile(self._path(_STATE)) as file:
            return json.loads(file.read())

    def _path(self, name: str) -> str:
        return f"{self._dir}/{name}"


@raised_as_both()
def known_length(data: tf.data.Dataset, batches: SupportsIndex) -> tf.data.Dataset:
    """`data` that tells Keras how many batches a whole epoch has at most; an epoch may also have fewer.

    For data behind `tfquiver.distribute`, whose length tf.data does not know: Keras would take the batches of the
    first epoch for those of all others, and cut them short when the first was a resumed one. Give it to `fit` itself:
    what is done to the data afterwards loses the length again. `batches` may be what `cardinality()` of the data before
    `distribute` gives.
    """
    try:
        count = operator.index(batches)
    except TypeError:
        count = 0
    if isinstance(batches, bool) or count < 1:
        raise errors.InvalidArgumentError(f"batches={batches!r}: must be a number, 1 or more")
    return _KnownLength(data, count)


class _KnownLength(tf.data.Dataset):  # type: ignore[misc]
    def __init__(self, data: tf.data.Dataset, batches: int) -> None:
        self._data, self._batches = data, batches
        super().__init__(data._variant_tensor)

    def _inputs(self) -> list[Any]:
        return [self._data]

    @property
    def element_spec(self) -> Any:
        return self._data.element_spec

    def cardinality(self) -> tf.Tensor:
        return tf.constant(self._batches, tf.int64)


def _sources(found: list[Any]) -> list[resumption.Resumable]:
    """Of these data sets and all that they were made of."""
    resumables: list[resumption.Resumable] = []
    while found:
        one = found.pop()
        resumable = getattr(one, "_tfquiver_resumable", None)
        if resumable is not None and resumable not in resumables:
            resumables.append(resumable)
        found += one._inputs()
    return resumables


def _name(data: resumption.Resumable) -> str:
    return f"{data.job}/{data.digest_id.hex()}"


def _encoded(position: types_pb2.Position) -> str:
    return base64.b64encode(position.SerializeToString()).decode()


def _decoded(text: str) -> types_pb2.Position:
    return types_pb2.Position.FromString(base64.b64decode(text))
