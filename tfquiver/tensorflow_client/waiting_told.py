"""Iterators of this process that wait for an element of tf.data service, told to their coordinators.

By that a dispatcher tells a task that nobody will ask for again from one that its trainer is behind with: who waits for
any element has not had this one (service/dispatcher/lost_workers_and_leftover_tasks/unread_tasks.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfquiver import errors
from tfquiver.data_sources_found_and_registered import made_datasets
from tfquiver.grpc_plumbing import addresses
from tfquiver.grpc_plumbing.unary_call import TOKEN_KEY, unary_call
from tfquiver.server_reachability.lifetimes import user_of

if TYPE_CHECKING:
    import tensorflow as tf

EVERY_S = 3.0  # a coordinator keeps it for four times as long
_LEAST_S = 5.0  # waiting for less is not worth a word
_CALL, _ANSWER_S, _MOST_BYTES = "/tfquiver.v1.Coordinator/ReportWaiting", 2.0, 1024
_MOST = 10_000
Waiting = Callable[[str, float], tuple[int, float]]  # as Library's


def keys_of(dataset: tf.data.Dataset) -> frozenset[str]:
    """Of its sessions."""
    left, keys = [dataset], set[str]()
    while left:
        one = left.pop()
        if key := getattr(getattr(one, "_tfquiver_origin", None), "session_key", ""):
            keys.add(key)
        else:
            left += one._inputs()
    return frozenset(keys)


@dataclass(slots=True)
class _Pipeline:
    dispatcher: str
    keys: frozenset[str]
    waiting: Waiting
    used: weakref.ref[Any]
    is_told: bool = False


_PROCESS = secrets.token_hex(16)
_lock = threading.Lock()
_pipelines: dict[str, _Pipeline] = {}  # by the name that the op knows them by


def name_of(dispatcher: str, keys: frozenset[str]) -> str:
    """By which the op is to know a pipeline; empty: by none, it has no sessions."""
    return " ".join([dispatcher, *sorted(keys)]) if keys else ""


def tell_of(made: tf.data.Dataset, dispatcher: str, keys: frozenset[str], waiting: Waiting) -> None:
    """From now on, for as long as that data set is there, `tell` tells of its iterators."""
    if keys:
        with _lock:
            one = _Pipeline(dispatcher, keys, waiting, weakref.ref(user_of(made)))
            _pipelines[name_of(dispatcher, keys)] = one


def tell() -> None:
    """To be called every EVERY_S. What cannot be told is not: then an epoch may end later than it could."""
    with _lock:
        for name in [name for name, one in _pipelines.items() if one.used() is None]:
            del _pipelines[name]
        here = list(_pipelines.items())
    for name, one in here:
        iterators = min(one.waiting(name, _LEAST_S)[0], _MOST)
        if iterators or one.is_told:
            _say(name, one, iterators)
            one.is_told = iterators > 0


def _say(name: str, one: _Pipeline, iterators: int) -> None:
    from tfquiver.proto.tfquiver.v1.coordinator_pb2 import ReportWaitingRequest

    pipeline = f"{_PROCESS}-{os.getpid()}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
    port = addresses.split(one.dispatcher)[1]
    made = {data.session_key: (data.coordinator, data.token) for data in made_datasets.made()}
    for key in one.keys & made.keys():
        service, token = made[key]
        request = ReportWaitingRequest(session_key=key, pipeline=pipeline, iterators=iterators, dispatcher_port=port)
        metadata = [(TOKEN_KEY, token)] if token else []
        for address in filter(addresses.is_address, addresses.each(service)):
            with contextlib.suppress(OSError, errors.ProtocolError):
                unary_call(address, _CALL, request.SerializeToString(), _ANSWER_S, _MOST_BYTES, metadata)


def _begin_anew() -> None:
    """In a forked child: a thread of the parent, which is not there, may have held it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)
