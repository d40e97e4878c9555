"""What Python tells the op library of its process. TensorFlow's Python is not needed for it."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path


class Told:
    """A library that TensorFlow has loaded. All methods are thread-safe."""

    def __init__(self, path: Path) -> None:
        self._c = ctypes.CDLL(str(path))
        self.path = path

    @property
    def functions(self) -> ctypes.CDLL:
        return self._c

    def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None:
        """Says where the node called `name` in graphs listens; "" is used for names that this process does not know.

        Args:
          kept: the descriptor of a connection to that node, which stays open until the next call for this name has
            returned: once it is broken, readers wait for that call, and come to no node that was started there and has
            not been told what it must know. -1: whatever node listens there will do.
        """
        self._c.tfq_set_kept_endpoint(name.encode(), socket_path.encode(), kept)

    def set_label(self, label: str) -> None:
        """Names this process to nodes (the address of its tf.data worker)."""
        self._c.tfq_set_label(label.encode())

    def set_restoring(self, restoring: bool) -> None:
        """While true, new split providers adopt the session that is open: set it around a dispatcher's restart."""
        self._c.tfq_set_restoring(int(restoring))

    def stop_all(self) -> None:
        """Ends every iterator of this process, and new ones until `resume_all`, with CANCELLED. Does not wait.

        A tf.data worker joins threads that may wait in an iterator: call this before stopping one.
        """
        self._c.tfq_stop_all()

    def resume_all(self) -> None:
        """Undoes `stop_all` for iterators made from now on."""
        self._c.tfq_resume_all()

    def leave_after(self, timeout_s: float) -> None:
        """Ends this process, with exit code 0, when it still runs then; whatever holds the interpreter's lock."""
        self._c.tfq_leave_after(round(timeout_s * 1000))

    def build_info(self) -> dict[str, str]:
        """What the library was built with: `tensorflow`, `compiler`."""
        self._c.tfq_build_info.restype = ctypes.c_char_p
        info: dict[str, str] = json.loads(self._c.tfq_build_info().decode())
        return info
