"""A channel that can be closed whatever a signal has interrupted.

gRPC enters a call in its books and then starts the thread that looks after it. Where a signal's exception (Ctrl-C's
KeyboardInterrupt, or the SystemExit of a handler) comes between the two, nobody looks after that call, and `close`
waits for its end for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self

import grpc

CLOSE_S = 1.0  # it takes well under a millisecond, on a busy machine some more


class Interruptible(grpc.Channel):
    """As the channel that it is made of. `close` ends within `CLOSE_S`; what hangs then ends with the process."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        closing = threading.Thread(target=self._channel.close, name="tfquiver closes a channel", daemon=True)
        try:
            closing.start()
        except RuntimeError:  # the interpreter is ending, and starts no thread any more
            self._channel.close()
        else:
            closing.join(CLOSE_S)

    def subscribe(self, callback: Callable[[Any], None], try_to_connect: bool = False) -> None:
        self._channel.subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Callable[[Any], None]) -> None:
        self._channel.unsubscribe(callback)

    def unary_unary(self, *arguments: Any, **more: Any) -> Any:
        return self._channel.unary_unary(*arguments, **more)

    def unary_stream(self, *arguments: Any, **more: Any) -> Any:
        return self._channel.unary_stream(*arguments, **more)

    def stream_unary(self, *arguments: Any, **more: Any) -> Any:
        return self._channel.stream_unary(*arguments, **more)

    def stream_stream(self, *arguments: Any, **more: Any) -> Any:
        return self._channel.stream_stream(*arguments, **more)
