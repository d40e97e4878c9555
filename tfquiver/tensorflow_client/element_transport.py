"""By which protocol a trainer gets the elements of tf.data service workers."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from tfquiver import errors
from tfquiver.roles_and_tokens import own_token

AUTO, GRPC, TFQUIVER = PROTOCOLS = ("AUTO", "grpc", "tfquiver")
VARIABLE = "TFQUIVER_DATA_TRANSFER_PROTOCOL"

_lock = threading.Lock()
_tokens: list[str] = []  # that this process has been given, and may prove to workers


def remember(token: str) -> None:
    """A token of this process; "" is none."""
    with _lock:
        if token and token not in _tokens:
            _tokens.append(token)


def named(argument: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """`data_transfer_protocol=`, else what the environment's TFQUIVER_DATA_TRANSFER_PROTOCOL says, else GRPC.

    Raises InvalidArgumentError naming what named it.
    """
    protocol = environment.get(VARIABLE) or GRPC if argument is None else argument
    if protocol not in PROTOCOLS:
        raise errors.InvalidArgumentError(f"{_source(argument)}={protocol!r}: must be one of {', '.join(PROTOCOLS)}")
    return protocol


def for_job(argument: str | None, job_name: str | None) -> str:
    """As `named`; for a job that trainers share always GRPC. Raises InvalidArgumentError where the argument says no."""
    protocol = named(argument)
    if job_name is None:
        return protocol
    if argument == TFQUIVER:  # the environment speaks of all that a process reads
        raise errors.InvalidArgumentError(
            f"job_name={job_name!r}: what one trainer has asked a worker for may be lost when another one is told the "
            'end: data_transfer_protocol must be "grpc" or "AUTO", which is gRPC here'
        )
    return GRPC


def chosen(protocol: str) -> str:
    """`protocol`, with AUTO decided: TFQUIVER where this TensorFlow has the plug, else GRPC. Loads what it takes.

    Raises UnavailableError: TFQUIVER is asked for by name, and cannot be had here.
    """
    if protocol == GRPC:
        return GRPC
    from tfquiver.ops.compiling_and_loading import transport  # imports TensorFlow

    loaded = transport.load()
    if loaded is None:
        if protocol == TFQUIVER:
            raise errors.UnavailableError(
                f'data_transfer_protocol="tfquiver" (or {VARIABLE}) cannot be had with this TensorFlow; the log says '
                'why. "AUTO" takes gRPC then'
            )
        return GRPC
    remember(own_token.of_user(None))
    with _lock:
        for token in _tokens:
            loaded.add_token(token)
    return TFQUIVER


def _source(argument: str | None) -> str:
    return VARIABLE if argument is None else "data_transfer_protocol"
