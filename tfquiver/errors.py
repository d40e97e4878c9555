"""The exception tree, and its one mapping to gRPC status codes.

TfquiverError
├── InvalidArgumentError     a flag, field or argument that cannot be right
├── NotFoundError            a data set, session, object or glob that is not there
├── PermissionError_         the store or the node refused the caller
├── DataLossError            bytes that are damaged where they are kept: names file and offset
│   └── CorruptDigestError   a digest file that fails a check
├── StaleDigestError         an object is no longer what the digest says
├── InUseError               it is being read, and cannot go now
├── TakenOverError           another client goes on with the session of this one
├── ResourceExhaustedError   no room now (disk, quota, memory)
│   └── NeverFitsError       larger than the limit: no waiting will help
├── AlreadyRunningError      another server holds the directory
├── UnavailableError         a server or store cannot be reached within the deadline
├── DeadlineError            out of time
├── UnauthenticatedError     wrong or missing token
├── ProtocolError            a frame or message that breaks the protocol
├── TensorFlowError          no TensorFlow here, or no op for it; also an ImportError
├── ReaderLibraryError       no library for readers without TensorFlow; also an ImportError
└── CancelledError_          stopped on purpose
"""

from __future__ import annotations

import errno
import functools
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import grpc


class _Code:
    """A class's gRPC status. Who asks for it imports gRPC: not everybody who may raise, which takes 30 ms."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, _error: object, _kind: type) -> grpc.StatusCode:
        import grpc

        return grpc.StatusCode[self._name]


class TfquiverError(Exception):
    """Base of every error that tfquiver raises on purpose."""

    code = _Code("INTERNAL")


class InvalidArgumentError(TfquiverError):
    code = _Code("INVALID_ARGUMENT")


class NotFoundError(TfquiverError):
    code = _Code("NOT_FOUND")


class PermissionError_(TfquiverError):
    code = _Code("PERMISSION_DENIED")


class DataLossError(TfquiverError):
    code = _Code("DATA_LOSS")


class CorruptDigestError(DataLossError):
    pass


class StaleDigestError(TfquiverError):
    code = _Code("FAILED_PRECONDITION")


class InUseError(TfquiverError):
    code = _Code("FAILED_PRECONDITION")


class TakenOverError(TfquiverError):
    code = _Code("FAILED_PRECONDITION")


class ResourceExhaustedError(TfquiverError):
    code = _Code("RESOURCE_EXHAUSTED")


class NeverFitsError(ResourceExhaustedError):
    code = _Code("OUT_OF_RANGE")


class AlreadyRunningError(TfquiverError):
    code = _Code("ALREADY_EXISTS")


class UnavailableError(TfquiverError):
    code = _Code("UNAVAILABLE")


class NobodyComputesError(UnavailableError):
    """Of derived data: who was asked knows of no process that could compute it. One may come yet, and soon if at all.

    `everywhere`: all nodes were asked, just now.
    """

    code = _Code("NOT_FOUND")
    everywhere = False


class DeadlineError(TfquiverError):
    code = _Code("DEADLINE_EXCEEDED")


class UnauthenticatedError(TfquiverError):
    code = _Code("UNAUTHENTICATED")


class ProtocolError(TfquiverError):
    code = _Code("ABORTED")


class CancelledError_(TfquiverError):
    code = _Code("CANCELLED")


class TensorFlowError(TfquiverError, ImportError):
    code = _Code("FAILED_PRECONDITION")


class ReaderLibraryError(TfquiverError, ImportError):
    code = _Code("FAILED_PRECONDITION")


_RECEIVED = (
    InvalidArgumentError,
    NotFoundError,
    PermissionError_,
    DataLossError,
    StaleDigestError,
    ResourceExhaustedError,
    NeverFitsError,
    AlreadyRunningError,
    UnavailableError,
    DeadlineError,
    UnauthenticatedError,
    ProtocolError,
    CancelledError_,
)


@functools.cache
def _by_code() -> dict[grpc.StatusCode, type[TfquiverError]]:
    return {kind.code: kind for kind in _RECEIVED}


def code_number(error: TfquiverError) -> int:
    """The canonical status number (gRPC's, absl's and TensorFlow's are the same numbers)."""
    number: int = error.code.value[0]
    return number


_BY_ERRNO: dict[int, type[TfquiverError]] = {
    errno.ENOSPC: ResourceExhaustedError,
    errno.EDQUOT: ResourceExhaustedError,
    errno.EFBIG: ResourceExhaustedError,
    errno.EACCES: PermissionError_,
    errno.EPERM: PermissionError_,
    errno.EROFS: PermissionError_,
    errno.ENAMETOOLONG: InvalidArgumentError,
    errno.ELOOP: InvalidArgumentError,
    errno.ENOENT: NotFoundError,
    errno.ENOTDIR: NotFoundError,
    errno.ENAMETOOLONG: InvalidArgumentError,
    errno.ELOOP: InvalidArgumentError,
}


def from_os_error(error: OSError, what: str) -> TfquiverError:
    """The typed exception for a failed file operation; `what` names the file. What is not known is UNAVAILABLE."""
    return _BY_ERRNO.get(error.errno or 0, UnavailableError)(f"{what}: {error.strerror}")


def of_lost_place(error: FileNotFoundError) -> NotFoundError | None:
    """Of an error that comes of a working directory that was deleted: what says so; None: it is still there."""
    try:
        os.getcwd()  # noqa: PTH109 - nobody who may raise shall import pathlib for this
    except OSError:
        gone = NotFoundError(
            "the working directory is no longer there: cd to one that is, or give paths that begin with /"
        )
        gone.__cause__ = error
        return gone
    return None


def from_code(code: grpc.StatusCode, message: str) -> TfquiverError:
    """The exception for a status received from a server."""
    return _by_code().get(code, TfquiverError)(message)


def from_number(number: int, message: str) -> TfquiverError:
    """The exception for a canonical status number, as `code_number` gives it; one that there is not: TfquiverError."""
    return from_code(_by_number().get(number, TfquiverError.code), message)


@functools.cache
def _by_number() -> dict[int, grpc.StatusCode]:
    import grpc

    return {code.value[0]: code for code in grpc.StatusCode}
