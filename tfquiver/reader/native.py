"""The reader library through ctypes, which lets go of the interpreter's lock in each call."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import threading
import weakref
import zlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import grpc

from tfquiver import errors
from tfquiver.ops.compiling_and_loading import reader_library
from tfquiver.reader import apart
from tfquiver.reader.batch import Batch, Memory

_END, _NOTHING_YET = -1, grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
_ROOM_BYTES = 4096  # for a message
_POSITION_BYTES = 1 << 14  # nearly always enough
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_Lock = AbstractContextManager[bool]
_Zlib = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64
)  # as PythonZlib in ops/reader_library_without_tensorflow/python_zlib.h


@functools.cache
def library() -> ctypes.CDLL:
    """Raises errors.ReaderLibraryError."""
    loaded = reader_library.load()
    pointer = ctypes.c_void_p
    # A ctypes argument that is not declared would be cut to 32 bits.
    loaded.tfq_crc32c.argtypes, loaded.tfq_crc32c.restype = (ctypes.c_char_p, ctypes.c_int64), ctypes.c_uint32
    loaded.tfq_batch_free.argtypes, loaded.tfq_batch_free.restype = (pointer,), None
    loaded.tfq_set_kept_endpoint.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int)
    loaded.tfq_set_kept_endpoint.restype = None
    loaded.tfq_set_zlib(_DEFLATE, _INFLATE)
    loaded.tfq_reader_new.argtypes = (
        *[ctypes.c_char_p] * 5, ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_char_p, ctypes.c_int64,
        ctypes.c_int64, pointer, ctypes.c_char_p, ctypes.c_int64,
    )  # fmt: skip
    loaded.tfq_reader_next.argtypes = (pointer, ctypes.c_int64, ctypes.c_int, pointer, ctypes.c_char_p, ctypes.c_int64)
    loaded.tfq_reader_position.argtypes = (pointer, ctypes.c_char_p, pointer, ctypes.c_char_p, ctypes.c_int64)
    loaded.tfq_position_touched.argtypes = (
        ctypes.c_char_p, ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p, pointer, pointer, ctypes.c_char_p,
        ctypes.c_int64,
    )  # fmt: skip
    loaded.tfq_reader_warning.argtypes = (pointer, ctypes.c_char_p, ctypes.c_int64)
    for function in (loaded.tfq_reader_stop, loaded.tfq_reader_free):
        function.argtypes, function.restype = (pointer,), None
    return loaded


class Sockets:
    """Tells the library where nodes are: what endpoints.acquire wants of a library."""

    def set_endpoint(self, name: str, socket_path: str, kept: int = -1) -> None:
        library().tfq_set_kept_endpoint(name.encode(), socket_path.encode(), kept)


@dataclass(frozen=True, slots=True)
class Opening:
    """What a reader is to read, as tfq_reader_new has it (ops/reader_library_without_tensorflow/exports.cc)."""

    options: Mapping[str, object]
    digest_id: bytes
    session_key: str
    label: str = ""
    provider_id: str = ""
    adopts: bool = False
    in_turn: bool = False
    epoch: int = -1
    position: bytes | None = None
    begun_of_shards: int = 0


class NativeReader:
    """One reader and its thread. Batches go to one thread at a time, `stop` and `close` are for any thread; all in the
    process that it was made in."""

    def __init__(self, opening: Opening) -> None:
        """Waits for nobody. Raises InvalidArgumentError (options, a position of another data set or damaged)."""
        self._library, self._pid = library(), os.getpid()
        made, message = ctypes.c_void_p(), ctypes.create_string_buffer(_ROOM_BYTES)
        position = opening.position
        arguments = (
            json.dumps(opening.options, separators=(",", ":"), sort_keys=True).encode(),
            opening.digest_id, opening.session_key.encode(), opening.label.encode(), opening.provider_id.encode(),
            opening.adopts, opening.in_turn, opening.epoch, position, len(position or b""), opening.begun_of_shards,
            ctypes.byref(made), message, _ROOM_BYTES,
        )  # fmt: skip
        try:
            _check(apart.done(lambda: self._library.tfq_reader_new(*arguments)), message)
        except BaseException:  # a signal's, maybe when it was made
            if made.value is not None:
                self._library.tfq_reader_free(made)
            raise
        assert made.value is not None
        self._handle = made.value
        self._room = Memory(self._library.tfq_batch_free)
        self._message = message
        self._using, self._stopping = threading.RLock(), threading.RLock()  # freed when neither is held
        # It ends at exit, too: its thread must not run when the library's static objects are gone.
        self._closing = weakref.finalize(self, _free, self._library, made.value, self._pid, self._using, self._stopping)

    def next(self, wait_ms: int, contiguous: bool) -> Batch | None:
        """None at the end of the epoch. Raises TimeoutError when nothing came in time, and the reader's errors."""
        self._check_process()
        with self._using:
            self._check_open()
            room = self._room
            if not room.held.owner:  # else one came, and an exception of a signal's before it was given away
                code = self._library.tfq_reader_next(
                    self._handle, wait_ms, contiguous, ctypes.byref(room.held), self._message, _ROOM_BYTES
                )
                if code == _END:
                    return None
                if code == _NOTHING_YET:
                    raise TimeoutError
                _check(code, self._message)
            batch = Batch(room)
            empty = Memory(self._library.tfq_batch_free)
        self._room = empty  # behind the last call: no signal's handler is run between this and the return
        return batch

    def position(self) -> bytes:
        """Raises InvalidArgumentError where an interrupted call has left a batch half-way."""
        self._check_process()
        return apart.done(self._position)

    def _position(self) -> bytes:
        message = ctypes.create_string_buffer(_ROOM_BYTES)
        with self._using:
            self._check_open()
            if self._room.held.owner:
                raise errors.InvalidArgumentError("a batch was interrupted: take it, then ask for the state")
            return _grown(
                lambda to, size: self._library.tfq_reader_position(
                    self._handle, to, ctypes.byref(size), message, _ROOM_BYTES
                ),
                message,
            )

    def warnings(self) -> list[str]:
        """What it has had to say since; nothing where it may not be asked any more."""
        said: list[str] = []
        if os.getpid() != self._pid:
            return said
        with self._using:
            while self._closing.alive and self._library.tfq_reader_warning(self._handle, self._message, _ROOM_BYTES):
                said.append(self._message.value.decode(errors="replace"))
        return said

    def stop(self) -> None:
        """From any thread: a `next` that waits raises CancelledError_."""
        if os.getpid() != self._pid:
            return
        with self._stopping:
            if self._closing.alive:
                self._library.tfq_reader_stop(self._handle)

    def close(self) -> None:
        """From any thread, as `stop`. Waits for its own thread; nothing may be asked of it after that."""
        self._closing()

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise errors.InvalidArgumentError(
                f"this iterator was made in process {self._pid}, before a fork: iterate the data set anew in this one"
            )

    def _check_open(self) -> None:
        if not self._closing.alive:
            raise errors.CancelledError_("this iterator was closed")


def touched(position: bytes, digest_id: bytes) -> tuple[bytes, int]:
    """Which shards a position has begun or done (bit i of byte i/8 is shard i), and of how many; 0: none is known."""
    loaded, message = library(), ctypes.create_string_buffer(_ROOM_BYTES)
    shards = ctypes.c_uint64()
    bitmap = apart.done(
        lambda: _grown(
            lambda to, size: loaded.tfq_position_touched(
                position, len(position), digest_id, to, ctypes.byref(size), ctypes.byref(shards), message, _ROOM_BYTES
            ),
            message,
        )
    )
    return bitmap, shards.value


def crc32c(data: bytes) -> int:
    """By the processor's instruction, where it has one."""
    value: int = library().tfq_crc32c(data, len(data))
    return value


def _grown(call: Callable[[Any, Any], int], message: Any) -> bytes:
    """What `call` writes, with as much room as it says it needs."""
    size, room = ctypes.c_int64(_POSITION_BYTES), 0
    while room < size.value:
        room = size.value
        to = ctypes.create_string_buffer(room)
        _check(call(to, size), message)
    return to.raw[: size.value]


def _check(code: int, message: Any) -> None:
    if code:
        text = message.value.decode(errors="replace")
        raise errors.from_code(_CODES.get(code, grpc.StatusCode.UNKNOWN), text)


def _free(library: ctypes.CDLL, handle: int, pid: int, using: _Lock, stopping: _Lock) -> None:
    if os.getpid() != pid:  # in a forked child its thread is not there, and a lock may be held for ever
        return
    library.tfq_reader_stop(handle)  # a thread that waits for a batch leaves
    with using, stopping:
        library.tfq_reader_free(handle)


def _with_zlib(convert: Callable[[bytes], bytes]) -> Any:
    def converted(data: int, size: int, to: int, room: int) -> int:
        try:
            out = convert(ctypes.string_at(data, size))
        except zlib.error:
            return -1
        if len(out) > room:
            return -1
        ctypes.memmove(to, out, len(out))
        return len(out)

    return _Zlib(converted)


def _inflate(data: bytes) -> bytes:
    # A bitmap of 2^28 shards, the most there are, has 32 MiB.
    inflater = zlib.decompressobj()
    out = inflater.decompress(data, (32 << 20) + 1)
    if not inflater.eof or inflater.unused_data:
        raise zlib.error("not one whole stream")
    return out


_DEFLATE, _INFLATE = _with_zlib(functools.partial(zlib.compress, level=1)), _with_zlib(_inflate)
