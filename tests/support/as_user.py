"""Runs a function as another user: in a child of this process, which must be root's."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def as_user(uid: int, gid: int, groups: list[int], call: Callable[[], T]) -> T:
    """What `call` returns. It may not import anything. Raises RuntimeError with the traceback of what it raises."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(read)
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            try:
                told: tuple[bool, object] = True, call()
            except BaseException:  # noqa: BLE001 - told to the parent
                told = False, traceback.format_exc()
            with os.fdopen(write, "wb") as pipe:
                pickle.dump(told, pipe)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    well, value = pickle.loads(data)
    if not well:
        raise RuntimeError(value)
    return value  # type: ignore[no-any-return]
