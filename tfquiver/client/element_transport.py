"""By which protocol a trainer gets the elements of tf.data service workers."""

from __future__ import annotations

import threading

from tfquiver import errors
from tfquiver.trust import own_token

AUTO, GRPC, TFQUIVER = PROTOCOLS = ("AUTO", "grpc", "tfquiver")

_lock = threading.Lock()
_tokens: list[str] = []  # that this process has been given, and may prove to workers


def remember(token: str) -> None:
    """A token of this process; "" is none."""
    with _lock:
        if token and token not in _tokens:
            _tokens.append(token)


def check(protocol: str) -> None:
    """Raises InvalidArgumentError."""
    if protocol not in PROTOCOLS:
        raise errors.InvalidArgumentError(f"data_transfer_protocol={protocol!r}: must be one of {', '.join(PROTOCOLS)}")


def chosen(protocol: str) -> str:
    """`protocol`, with AUTO decided: TFQUIVER where this TensorFlow has the plug, else GRPC. Loads what it takes.

    Raises UnavailableError: TFQUIVER is asked for by name, and cannot be had here.
    """
    if protocol == GRPC:
        return GRPC
    from tfquiver.ops.library import transport  # imports TensorFlow

    loaded = transport.load()
    if loaded is None:
        if protocol == TFQUIVER:
            raise errors.UnavailableError(
                'data_transfer_protocol="tfquiver" cannot be had with this TensorFlow; the log says why. "AUTO" takes '
                "gRPC then"
            )
        return GRPC
    remember(own_token.of_user(None))
    with _lock:
        for token in _tokens:
            loaded.add_token(token)
    return TFQUIVER
