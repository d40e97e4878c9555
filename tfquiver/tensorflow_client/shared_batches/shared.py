"""What the iterators and makers of one `one_stream` have in common, in this process."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfquiver.messages_and_binary_formats import stream_frames
from tfquiver.tensorflow_client.shared_batches import line
from tfquiver.tensorflow_client.shared_batches.apart import Apart
from tfquiver.tensorflow_client.shared_batches.pipeline import Pipeline

if TYPE_CHECKING:
    from tfquiver.tensorflow_client.shared_batches.maker import Maker

_EXIT_S = 5.0


@dataclass(eq=False)
class Shared:
    pipeline: Pipeline
    name: str
    window_bytes: int
    spill_bytes: int
    makers: dict[int, Maker] = field(default_factory=dict)  # by pass
    apart: Apart = field(default_factory=Apart)
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopping: bool = False  # the process ends
    pid: int = field(default_factory=os.getpid)

    def __post_init__(self) -> None:
        _all.add(self)

    def connect(self, pass_: int, makes: bool, hello_s: float = line.HELLO_S) -> line.StreamLine:
        """Raises OSError, ProtocolError."""
        pipeline = self.pipeline
        follow = stream_frames.Follow(self.name, pipeline.likeness, pass_, makes, self.window_bytes, self.spill_bytes)
        return line.StreamLine(pipeline.endpoint, follow, hello_s)


_all: weakref.WeakSet[Shared] = weakref.WeakSet()


def _leave() -> None:
    """At exit: threads must have left TensorFlow when its objects go."""
    mine = [shared for shared in list(_all) if shared.pid == os.getpid()]
    for shared in mine:
        shared.stopping = True
    makers = [maker for shared in mine for maker in list(shared.makers.values())]
    for maker in makers:
        maker.stop()
    line.stop_all()
    if mine:
        from tfquiver.ops.compiling_and_loading import loader

        loader.load().stop_all()
    for maker in makers:
        maker.join(_EXIT_S)
    for shared in mine:
        shared.apart.leave(_EXIT_S)


atexit.register(_leave)
