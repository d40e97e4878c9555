"""`tfquiver.materialize`: what a function makes of each record, computed once for all jobs and epochs."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from absl import logging

from tfquiver import errors
from tfquiver.data_sources_found_and_registered.registration import Registrar
from tfquiver.digests.digest import Digest
from tfquiver.materializing.building import Building
from tfquiver.materializing.calls import Calls
from tfquiver.materializing.checking import check_sample
from tfquiver.materializing.computer import Computer
from tfquiver.materializing.derivation import Derivation
from tfquiver.materializing.function_fingerprints.function import Function
from tfquiver.materializing.making import Making
from tfquiver.materializing.raw_shards import RawShards
from tfquiver.node_daemon_and_notes_in_directories import endpoints
from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import NodeEndpoint
from tfquiver.proto.tfquiver.v1.derived_datasets_pb2 import OpenDerivedRequest
from tfquiver.server_reachability.lifetimes import user_of
from tfquiver.tensorflow_client.opening import Opening, opened
from tfquiver.tensorflow_client.tf_errors import raised_as_both
from tfquiver.users_arguments_checked.checks import check_integer, check_name
from tfquiver.users_arguments_checked.option_groups import Progress

if TYPE_CHECKING:
    import tensorflow as tf

    from tfquiver.proto.tfquiver.v1 import types_pb2

_PATIENCE_S = 120.0  # with a node or coordinator that is restarted while it is computed
_MOST_USES, _MOST_CHECKED = 1 << 31, 1 << 20
_MOST_VERSION = 1 << 16
Transformation = Callable[["tf.data.Dataset"], "tf.data.Dataset"]


@raised_as_both()
def materialize(
    fn: Callable[..., Any],
    *,
    version: str = "",
    name: str | None = None,
    allow_random: int | None = None,
    check: int = 0,
    progress: Progress | None = None,
) -> Transformation:
    """A transformation for `Dataset.apply`, right behind `tfquiver.dataset`: `map(fn)` that is done once, for all.

    What `fn` makes of each record is a data set of its own, kept in the cache as any other: later epochs and jobs that
    apply the same function to the same records read it, and compute nothing. The first who want it compute it together,
    each shard by one of them, before this returns; what the cache has no room for is computed again when it is read.
    "The same" is told by the graph of `fn`, the values that it captures, `version`, and TensorFlow's minor version. It
    is found only by who shows the same token. Workers of tf.data service can read it (`tfquiver.distribute`); what is
    missing is computed for them in this process.

    Args:
      fn: record (`tf.string` scalar) -> element: any tensors, also ragged or sparse ones or strings, in tuples, dicts.
        Only TensorFlow ops, without state; with `allow_random`, (record, seed) -> element.
      version: anything that tells functions apart that look the same in the graph. Ops of other libraries need it.
      name: of the derived data set, for people; None: of the input and `fn`.
      allow_random: `fn` is random: it gets a seed (int64 [2]) for `tf.random.stateless_*` as its second argument, and
        is drawn anew when its outcome has been used so many times: by so many calls.
      check: so many shards, drawn at random, are computed again and compared with what is kept.
      progress: called with bytes of the input done and in all, while it is computed; None: a bar on a terminal.

    With `batch_size=` of `tfquiver.dataset` elements come batched, where each has the same shape (or is one string).

    Raises, all also of the class of `tf.errors` of that kind:
      InvalidArgumentError: `fn` fails on a record, cannot be traced, is random, or captures what cannot be hashed;
        it is not applied to what `tfquiver.dataset` returned; names it.
      StaleDigestError: with `check`, `fn` makes something else of a shard than what is kept.
      UnavailableError, ResourceExhaustedError, PermissionError_: of coordinator, node and store.
    """
    if not callable(fn):
        raise errors.InvalidArgumentError(f"fn={fn!r}: must be a function")
    if not isinstance(version, str) or len(version) > _MOST_VERSION:
        raise errors.InvalidArgumentError(f"version={str(version)[:40]!r}: must be a string")
    check_name("name", name)
    if allow_random is not None:
        check_integer("allow_random", allow_random, 1, _MOST_USES)
    check_integer("check", check, 0, _MOST_CHECKED)

    from tfquiver.tensorflow_client.parsing.kept_elements import parsing_of_kept  # imports TensorFlow

    @raised_as_both()
    def apply(dataset: tf.data.Dataset) -> tf.data.Dataset:
        opening, source = _origin(dataset)
        function = Function(fn, version, allow_random is not None)
        if opening.options.batch_size and not function.layout.batches:
            raise errors.InvalidArgumentError(
                f"batch_size={opening.options.batch_size}: what {function.name} returns is not of one fixed shape: "
                "leave it away, and batch behind materialize (.batch(), .ragged_batch(), .padded_batch())"
            )
        derived = _Derived(opening, source, function, name or f"{source.name}/{function.name}", allow_random or 0)
        # Unbatched there is nothing to gain: each record is an element of its own either way.
        parsing = parsing_of_kept(function.layout) if opening.options.batch_size else None
        found = replace(opening, parsing=parsing)
        made = opened(found, lambda registrar, report, _: derived.found(registrar, report, check), progress)
        derived.computer(user_of(made._tfquiver_origin.made)).start()
        if parsing is None:
            return _decoded(made, function, opening.options.with_position)
        del made._tfquiver_opening  # who applies something to it is told what it is applied to
        return made

    apply.autograph_info__ = {}  # type: ignore[attr-defined]  # see tfquiver.dataset
    return apply


materialize.autograph_info__ = {}  # type: ignore[attr-defined]


def _origin(dataset: tf.data.Dataset) -> tuple[Opening, types_pb2.Dataset]:
    import tensorflow as tf

    opening = getattr(dataset, "_tfquiver_opening", None)
    if not isinstance(opening, Opening):
        raise errors.InvalidArgumentError(
            "tfquiver.materialize is applied to what tfquiver.dataset(...) returns, with nothing in between: put what "
            "stands between into fn"
        )
    if opening.parsing is not None:
        raise errors.InvalidArgumentError(
            "parse=: tfquiver.materialize gives records to fn, not what was parsed: leave it away, and parse in fn "
            "(tf.io.parse_single_example)"
        )
    if opening.way.cache_dir is None:
        raise errors.InvalidArgumentError(
            "tfquiver.materialize needs the node on this machine, which keeps what is computed: add cache_dir= to "
            "tfquiver.dataset(...)"
        )
    if not tf.executing_eagerly():
        raise errors.InvalidArgumentError("tfquiver.materialize computes when it is called: not in a tf.function")
    return opening, dataset._tfquiver_origin.registered


class _Derived:
    """One derived data set, from its recipe to who can compute it again."""

    def __init__(
        self, opening: Opening, source: types_pb2.Dataset, function: Function, name: str, uses_per_draw: int
    ) -> None:
        self._opening, self._source, self._function, self._name = opening, source, function, name
        self._uses_per_draw = uses_per_draw
        assert opening.way.cache_dir is not None
        self._endpoint = endpoints.name_of(opening.way.cache_dir)
        self._making: Making | None = None
        self._derivation: Derivation | None = None
        self._digest_id = b""

    def found(self, registrar: Registrar, report: Progress | None, check: int) -> types_pb2.Dataset:
        """Computed first where it is not yet."""
        request = OpenDerivedRequest(
            fingerprint=self._function.fingerprint, digest_id=self._source.digest_id, name=self._name,
            uses_per_draw=self._uses_per_draw, use_id=uuid.uuid4().hex if self._uses_per_draw else "",
        )  # fmt: skip
        with Calls(registrar.address, self._control, self._opening.way.token, _PATIENCE_S) as calls:
            source = Digest.from_bytes(calls.digest(self._source.digest_id), f"the digest of {self._source.name}")
            state = calls.open(request)
            is_told = functools.partial(endpoints.is_told, self._endpoint)
            shards = RawShards(source, self._socket, _PATIENCE_S, is_told)
            self._making = Making(source, shards, self._function, state.build_id)
            dataset = state.dataset
            if not state.HasField("dataset"):
                building = Building(calls, self._making, state.build_id, report)
                dataset = building.build()
                logging.info("%s: %d of %d shards were computed here", self._name, building.computed, state.rows)
            self._digest_id = dataset.digest_id
            derived = Digest.from_bytes(calls.digest(dataset.digest_id), f"the digest of {self._name}")
        self._derivation = Derivation(source, derived)
        if check:
            check_sample(self._making, self._derivation, derived, check)
        return dataset

    def computer(self, user: object) -> Computer:
        assert self._making is not None
        assert self._derivation is not None
        return Computer(self._making, self._derivation, self._digest_id, self._control, self._opening.way.token, user)

    def _control(self) -> str:
        return self._now().local_control

    def _socket(self) -> str:
        return self._now().socket

    def _now(self) -> NodeEndpoint:
        if (endpoint := endpoints.current(self._endpoint)) is None:
            raise errors.UnavailableError(f"the node of {self._opening.way.cache_dir} is not in use here any more")
        return endpoint


def _decoded(made: tf.data.Dataset, function: Function, with_position: bool) -> tf.data.Dataset:
    import tensorflow as tf

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def decode(record: Any) -> Any:
        return function.layout.decode(record)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def both(position: Any, record: Any) -> Any:
        return position, decode(record)

    decoded = made.map(both if with_position else decode, num_parallel_calls=tf.data.AUTOTUNE)
    decoded._tfquiver_origin = replace(made._tfquiver_origin, decode=decode)
    return decoded
