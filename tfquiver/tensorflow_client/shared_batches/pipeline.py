"""A user's pipeline, whose batch k of pass p is the same whenever and wherever it is made."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

from absl import logging

from tfquiver import errors
from tfquiver.messages_and_binary_formats import stream_frames
from tfquiver.tensorflow_client.exactly_once import Origin
from tfquiver.tensorflow_client.shared_batches import packing, pipeline_graph

_NO_GRAPH = bytes(32)
_beginning = threading.Lock()  # which epoch comes next is told to the op by data set, not by iterator


class Pipeline:
    """Raises InvalidArgumentError: what stands before cannot be made again alike."""

    def __init__(self, dataset: Any) -> None:
        import tensorflow as tf

        from tfquiver.ops.compiling_and_loading import loader

        self.spec = dataset.element_spec
        self._sources = _checked_sources(dataset)
        graph = pipeline_graph.of_dataset(dataset)
        self._transformations, self._constants = (graph.transformations(), graph.all()) if graph else (_NO_GRAPH,) * 2
        self._library = loader.load()
        options = tf.data.Options()
        options.experimental_symbolic_checkpoint = True  # positions only: no content of buffers
        self._packed = packing.packed_dataset(dataset).with_options(options)

    @property
    def endpoint(self) -> str:
        """Of the node that keeps the window."""
        return self._sources[0].endpoint

    @property
    def job(self) -> str:
        return self._sources[0].options.job

    @property
    def patience_s(self) -> float:
        return self._sources[0].options.reconnect_ms / 1000

    @property
    def likeness(self) -> bytes:
        """The same for pipelines that are the same, as far as their graphs tell."""
        shards, orders = [], []
        for source in self._sources:
            asked = source.options
            batches = asked.batch_size, asked.drop_remainder
            shards.append(source.registered.digest_id.hex())
            orders.append((asked.deterministic, asked.seed, asked.shuffle_bytes, *batches))
        data, order, elements = (hashlib.sha256(repr(one).encode()).digest() for one in (shards, orders, self.spec))
        return stream_frames.likeness(data, order, elements, self._transformations, self._constants)

    def begin(self, pass_: int) -> Made:
        return Made(self, iter(self._packed), pass_, begins=True)

    def restored(self, pass_: int, checkpoint: bytes) -> Made:
        """Raises DataLossError: it is no checkpoint of this pipeline."""
        import tensorflow as tf

        iterator = iter(self._packed)
        try:
            saved = tf.io.parse_tensor(checkpoint, tf.variant)
            tf.raw_ops.DeserializeIterator(resource_handle=iterator._iterator_resource, serialized=saved)
        except tf.errors.OpError as error:
            raise errors.DataLossError(f"a checkpoint of a stream's pipeline: {error}") from error
        return Made(self, iterator, pass_, begins=False)

    def first(self, pass_: int, iterator: Any) -> list[bytes] | None:
        with _beginning:
            for source in self._sources:
                self._library.set_epoch(source.session_key, pass_)
            return _tensors(iterator)


class Made:
    """The batches of a pass, one after the other, from somewhere on."""

    def __init__(self, pipeline: Pipeline, iterator: Any, pass_: int, begins: bool) -> None:
        self._pipeline, self._iterator, self._pass, self._begins = pipeline, iterator, pass_, begins
        self._unsaved = False

    def next(self) -> list[bytes] | None:
        """None: there are no more. Raises what the pipeline does."""
        if self._begins:
            self._begins = False
            return self._pipeline.first(self._pass, self._iterator)
        return _tensors(self._iterator)

    def checkpoint(self) -> bytes | None:
        """Behind the last batch. None: something in the pipeline cannot be saved; said once."""
        import tensorflow as tf

        if self._unsaved:
            return None
        try:
            saved = tf.raw_ops.SerializeIterator(
                resource_handle=self._iterator._iterator_resource, external_state_policy=0
            )
            return bytes(tf.io.serialize_tensor(saved).numpy())
        except tf.errors.OpError as error:
            self._unsaved = True
            logging.warning(
                "one_stream: the pipeline has no checkpoints, so a trainer that falls out of the window makes a pass "
                "again from its beginning: %s", str(error).split("\n", 1)[0],
            )  # fmt: skip
            return None


def _tensors(iterator: Any) -> list[bytes] | None:
    element = next(iterator, None)
    return None if element is None else list(element.numpy())


def _checked_sources(dataset: Any) -> list[Origin]:
    import tensorflow as tf

    if dataset.options().deterministic is False:
        raise errors.InvalidArgumentError(
            "one_stream: the pipeline has options().deterministic=False: its batches differ"
        )
    if int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY:
        raise errors.InvalidArgumentError("one_stream: the pipeline has no end: put repeat() behind one_stream")
    found, left = [], [dataset]
    while left:
        one = left.pop()
        if hasattr(one, "_tfquiver_distributed"):
            raise errors.InvalidArgumentError(
                "one_stream: what workers of tf.data service make comes in another order each time, so a stream of it "
                "cannot be made again. Leave distribute() away: one of the trainers makes the batches for all"
            )
        origin = getattr(one, "_tfquiver_origin", None)
        if isinstance(origin, Origin):
            found.append(origin)
        else:
            left += one._inputs()
    if not found or not all(origin.endpoint for origin in found):
        raise errors.InvalidArgumentError(
            "one_stream: the pipeline must begin with tfquiver.dataset(..., cache_dir=...), whose node keeps the window"
        )
    for origin in found:
        if not (origin.options.deterministic or origin.options.files) or origin.options.joins or origin.resumes:
            raise errors.InvalidArgumentError(
                "one_stream: batches are made again where they are lacking, which takes an order that comes again: "
                'tfquiver.dataset(..., order=tfquiver.Deterministic(seed)), or order="files"; without stream=, resume='
            )
    return found
