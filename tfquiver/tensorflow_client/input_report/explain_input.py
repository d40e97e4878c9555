"""`tfquiver.explain_input(data)`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import grpc
import tensorflow as tf
from absl import logging

from tfquiver import errors
from tfquiver.data_sources_found_and_registered import made_datasets
from tfquiver.grpc_plumbing import rpc
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc
from tfquiver.tensorflow_client.input_report.shares import InputReport, Source, Stage, report
from tfquiver.tensorflow_client.step_times import step_reports
from tfquiver.tensorflow_client.tf_errors import raised_as_both

_LEAST_S, _MOST_S = 1.0, 600.0
_CALL_S = 3.0
_NEWEST = 100  # epochs that are looked through
_MEASURED_AFTER_S = 8.0  # readers tell every few seconds
_ASK_EVERY_S = 0.25  # until they have: to ask takes 10 ms, in which nothing is read
_MOST_INPUTS = 10_000
_VERSION = re.compile(r"V\d+$")
_OURS = "Quiver"  # how nodes of the model are named that are sources of tfquiver


@raised_as_both()
def explain_input(data: tf.data.Dataset, seconds: float = 10.0) -> InputReport:
    """Reads `data` for some seconds and says what its time goes to, and what to change.

    ```python
    print(tfquiver.explain_input(train_data))
    ```

    `212 elements a second, read alone for 10 s; time: 43% waits for records, 38% ParallelMap (parse), ...; * 60% of its
    bytes are shard misses, ...`. What is read is an epoch of its own, or several: no iterator of the training is moved,
    but the cache and the store serve it, and it counts among the job's epochs: with `order=tfquiver.Deterministic`
    those that follow have the orders of later ones (a data set with a `job=` of its own leaves them alone). Shares are
    those of tf.data's own model of the pipeline, and of what the readers say of their waits (of all the job's readers,
    over the last ten seconds or so); they are as good as that.

    Args:
      data: made of one `tfquiver.dataset`, without `resume=` and `stream=`, and whatever follows it; not behind
        `tfquiver.distribute`.
      seconds: how long to look, from 1 to 600. Where readers have told nothing by then, which they do every few
        seconds, it is read on until they have, for 8 s at most, and only what they tell counts of that. What a
        pipeline waits for at the beginning of each epoch is in it: of small data sets it may be nearly all.

    Raises InvalidArgumentError: there is no `tfquiver.dataset` in it, or several; it has no elements; or seconds cannot
    be right.
    """
    if not isinstance(data, tf.data.Dataset):
        raise errors.InvalidArgumentError(f"data: must be a tf.data.Dataset, not of type {type(data).__name__}")
    if not isinstance(seconds, int | float) or not _LEAST_S <= seconds <= _MOST_S:
        raise errors.InvalidArgumentError(f"seconds={seconds!r}: must be from {_LEAST_S:g} to {_MOST_S:g}")
    every = list(_made_of(data))
    origins = [origin for one in every if (origin := getattr(one, "_tfquiver_origin", None)) is not None]
    keys = {origin.session_key for origin in origins}
    if len(keys) != 1:
        none = "none is in it (give what stands before distribute, one_stream or from_generator)"
        found = none if not keys else f"{len(keys)} are in it: give them one by one"
        raise errors.InvalidArgumentError(f"data: must be made of one tfquiver.dataset; {found}")
    (key,) = keys
    if any(origin.resumes or origin.options.joins for origin in origins):
        raise errors.InvalidArgumentError(
            "data: has resume= or stream=, and what is read here would be missing where it is to be trained on: give "
            "the same data set without them"
        )
    iterator = iter(data.repeat())
    began_s = time.monotonic()
    elements = _read(iterator, seconds)
    if not elements:
        raise errors.InvalidArgumentError("data: it has no elements: there is nothing to explain")
    spent_s = time.monotonic() - began_s
    while (source := _source(key)) is None and time.monotonic() - began_s < _MEASURED_AFTER_S:
        _read(iterator, _ASK_EVERY_S)
    stages = _stages(iterator, [name for one in every if (name := _function(one))])
    prefetches = any("Prefetch" in type(one).__name__ for one in every[:3])
    return report(spent_s, elements, stages, source or Source("", None, None), _training_steps_per_s(), prefetches)


def _read(iterator: Iterator[Any], seconds: float) -> int:
    """So many elements; 0: there are none."""
    elements, until_s = 0, time.monotonic() + seconds
    while time.monotonic() < until_s:
        if next(iterator, None) is None:
            break  # of nothing a repetition is nothing
        elements += 1
    return elements


def _made_of(data: Any) -> Iterator[Any]:
    """The data set itself, and what it was made of, from its end on."""
    left, seen = [data], 0
    while left and seen < _MOST_INPUTS:
        one, seen = left.pop(0), seen + 1
        yield one
        left += one._inputs()


def _function(data: Any) -> str:
    """Of a data set made by `map`; "" of another one, or where TensorFlow does not say."""
    function = getattr(getattr(data, "_map_func", None), "_func", None)
    name = str(getattr(function, "__name__", "")).strip("<>")  # <lambda>
    return name if "Map" in type(data).__name__ else ""


def _stages(iterator: Any, functions: list[str]) -> list[Stage]:
    try:
        nodes = tf.data.experimental.get_model_proto(iterator).nodes
    except (AttributeError, TypeError, ValueError, tf.errors.OpError) as error:
        logging.warning("what stages of the pipeline take is not known to this TensorFlow: %s", error)
        return []
    known = [nodes[key] for key in sorted(nodes) if nodes[key].name != "Root" and _OURS not in nodes[key].name]
    maps = [node for node in known if "Map" in node.name]
    named = dict(zip((node.id for node in maps), functions, strict=False)) if len(maps) == len(functions) else {}
    return [
        Stage(_VERSION.sub("", node.name), node.processing_time / 1e9, _threads(node), named.get(node.id, ""))
        for node in known
    ]


def _threads(node: Any) -> int:
    found = [parameter.value for parameter in node.parameters if parameter.name == "parallelism"]
    return max(int(found[0]), 1) if found else 1


def _source(session_key: str) -> Source | None:
    """What the coordinator knows of it; None: nothing yet, or it does not answer."""
    made = next((one for one in made_datasets.made() if one.session_key == session_key), None)
    if made is None:
        return None
    try:
        with rpc.channel(made.coordinator) as channel:
            stub: Any = coordinator_pb2_grpc.CoordinatorStub(channel)
            request = coordinator_pb2.ListSessionsRequest(session_key=session_key, limit=_NEWEST)
            reply = stub.ListSessions(
                request, timeout=_CALL_S, metadata=tuple(rpc.metadata(made.token)), wait_for_ready=True
            )
    except (grpc.RpcError, errors.TfquiverError) as error:
        logging.warning("what its readers wait for is not known: %s", error)
        return None
    for info in reply.sessions:
        if info.HasField("stall_share"):
            return Source(info.job, info.stall_share, info.hit_share if info.HasField("hit_share") else None)
    return None


def _training_steps_per_s() -> float | None:
    """Of what was counted in this process so far, where waiting for data is not in the steps."""
    best = None
    for subject in step_reports.subjects():
        totals, inside = subject.counts.totals, subject.counts.waits_inside
        if totals.steps and totals.step_s > 0 and not inside:
            rate = totals.steps / totals.step_s
            best = rate if best is None else max(best, rate)
    return best
