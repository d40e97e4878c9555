"""Where packed files go: a folder, or a bucket of Google Cloud Storage. A file is there whole, or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Protocol

from tfquiver import durable, errors, named_files

_UPLOAD_S = 600.0
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EXDEV, errno.ENOSYS, errno.EMLINK}
_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
_HALF_A_SCHEME = re.compile(r"gs:(?!//)/?(.*)")
_CHUNK_BYTES = 16 << 20  # of an upload, which are in memory; a multiple of 256 KiB
_TMPDIR = "make room there, or name another directory in TMPDIR"


class Target(Protocol):
    def check(self) -> None:
        """Before the sources are looked at, which takes long: that files can be made there; nothing is left of it.
        Raises TfquiverError."""
        ...

    def names(self) -> set[str]:
        """Of the files that are there."""
        ...

    def read(self, name: str) -> bytes | None:
        """A small file; None: there is none."""
        ...

    def claim(self, name: str, content: bytes) -> bytes:
        """Writes a file unless there is one; what is in it now. Of several who claim at once, one writes."""
        ...

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        """What is there already may stay: it is the same."""
        ...

    def replace(self, name: str, content: bytes) -> None:
        """Writes a file, whatever was there."""
        ...

    def remove(self, name: str) -> None:
        """It may be gone already."""
        ...

    def tidy(self, name: str) -> None:
        """All files of a pack are there: whatever half of one is beside them goes."""
        ...


def target(where: str) -> Target:
    """Raises InvalidArgumentError for what is neither, or where its package is missing."""
    if not where:
        raise errors.InvalidArgumentError("-o '': name a folder; the one that this is started in is .")
    if where.startswith("gs://"):
        return _Bucket(where)
    if slash := _HALF_A_SCHEME.match(where):
        raise errors.InvalidArgumentError(f"-o {where}: write gs://{slash[1]}; a folder of that name is ./{where}")
    if "://" in where:
        raise errors.InvalidArgumentError(f"-o {where}: must be a folder or gs://bucket/prefix")
    return _Folder(Path(where).expanduser().absolute())


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self) -> None:
        named_files.check_directory(f"-o {self._path}", self._path)

    def names(self) -> set[str]:
        return {path.name for path in self._path.iterdir()} if self._path.is_dir() else set()

    def read(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise named_files.not_read(error, f"-o {self._path}: {name}", self._path / name) from error

    def claim(self, name: str, content: bytes) -> bytes:
        path = self._path / name
        with self._written(name):
            own = path.with_name(f".{name}.{secrets.token_hex(8)}.claim")
            try:
                durable.write(own, [content], 0o644)
                self._named_unless_there(own, path)
            except (FileExistsError, FileNotFoundError):  # somebody has been there, and may have tidied this one's away
                pass
            finally:
                own.unlink(missing_ok=True)
            durable.sync_directory(self._path)
            return path.read_bytes()

    def _named_unless_there(self, own: Path, path: Path) -> None:
        """Raises FileExistsError, and what `link` raises."""
        try:
            os.link(own, path)
            return
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        # FAT, SMB and many of FUSE have no hard links. A lock goes with its holder, if it is killed. Where there are no
        # locks either, of two who claim at the very same time the later one may win.
        lock = durable.lock_file(path.with_name(f".{path.name}.lock"))
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
            if path.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            own.rename(path)
        finally:
            os.close(lock)

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        with self._written(name):
            try:
                durable.write(self._path / name, pieces, 0o644)
            except FileNotFoundError:
                if not (self._path / name).exists():  # else another run has made it, and tidied this one's away
                    raise

    def replace(self, name: str, content: bytes) -> None:
        with self._written(name):
            durable.write(self._path / name, [content], 0o644)

    def remove(self, name: str) -> None:
        with self._written(name):
            (self._path / name).unlink(missing_ok=True)

    def tidy(self, name: str) -> None:
        half = r".*\.[0-9a-f]{16}\.(tmp|claim)"  # and a lock: who waits for it still finds the note
        left = re.compile(rf"\.\.?{re.escape(name)}((-\d+-of-\d+\.tfrecord|\.pack\.json){half}|\.pack\.json\.lock)")
        with self._written(name):
            for path in self._path.iterdir():
                if left.fullmatch(path.name):
                    with contextlib.suppress(OSError):  # all that matters is there
                        path.unlink()

    @contextlib.contextmanager
    def _written(self, name: str) -> Iterator[None]:
        try:
            self._path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = durable.why_not_made(self._path, error)
            raise errors.InvalidArgumentError(f"-o {self._path}: {why}") from error
        try:
            yield
        except OSError as error:
            raise named_files.not_written(error, f"-o {self._path}: {name}", self._path / name) from error


class _Bucket:
    """An upload is one object: the service shows it when it is whole.

    One that is written again would be of another generation, and stale for who has listed it meanwhile. So what is
    there stays: of a packer that was killed while its last chunk was on the way, of another one at the same time, or of
    this one, when the answer was lost.
    """

    def __init__(self, where: str) -> None:
        bucket, _, prefix = where.removeprefix("gs://").partition("/")
        self._bucket_name, self._prefix = bucket, prefix.rstrip("/") + "/" if prefix.strip("/") else ""
        self._client: Any = None

    def check(self) -> None:
        """Its package is there; the first file says whether it may be written."""
        with _refused(f"gs://{self._bucket_name}/{self._prefix}"):
            pass

    def _bucket(self) -> Any:
        if self._client is None:  # in each process that packs
            from google.cloud import storage

            self._client = storage.Client()
            # Else it asks for the bucket's metadata, for traces, in a thread of its own.
            self._client._bucket_metadata_cache = None
        return self._client.bucket(self._bucket_name)

    def names(self) -> set[str]:
        with _refused(f"gs://{self._bucket_name}/{self._prefix}"):
            blobs = self._bucket().list_blobs(prefix=self._prefix, timeout=_UPLOAD_S)
            return {blob.name.removeprefix(self._prefix) for blob in blobs}

    def read(self, name: str) -> bytes | None:
        with _refused(f"gs://{self._bucket_name}/{self._prefix}{name}"):
            from google.api_core.exceptions import NotFound

            try:
                return bytes(self._bucket().blob(self._prefix + name).download_as_bytes(timeout=_UPLOAD_S))
            except NotFound:
                return None

    def claim(self, name: str, content: bytes) -> bytes:
        with _refused(f"gs://{self._bucket_name}/{self._prefix}{name}"):
            from google.api_core.exceptions import PreconditionFailed

            blob = self._bucket().blob(self._prefix + name)
            with contextlib.suppress(PreconditionFailed):  # somebody has been there
                blob.upload_from_string(content, if_generation_match=0, timeout=_UPLOAD_S)
            return bytes(blob.download_as_bytes(timeout=_UPLOAD_S))

    def write(self, name: str, pieces: Iterable[bytes]) -> None:
        where = f"gs://{self._bucket_name}/{self._prefix}{name}"
        with spooled(pieces, where) as spool, _refused(where):
            from google.api_core.exceptions import PreconditionFailed

            blob = self._bucket().blob(self._prefix + name, chunk_size=_CHUNK_BYTES)
            with contextlib.suppress(PreconditionFailed):
                blob.upload_from_file(spool, if_generation_match=0, timeout=_UPLOAD_S)

    def replace(self, name: str, content: bytes) -> None:
        with _refused(f"gs://{self._bucket_name}/{self._prefix}{name}"):
            self._bucket().blob(self._prefix + name).upload_from_string(content, timeout=_UPLOAD_S)

    def remove(self, name: str) -> None:
        with _refused(f"gs://{self._bucket_name}/{self._prefix}{name}"):
            from google.api_core.exceptions import NotFound

            with contextlib.suppress(NotFound):
                self._bucket().blob(self._prefix + name).delete(timeout=_UPLOAD_S)

    def tidy(self, name: str) -> None:
        """An upload that was not finished is no object; the service drops it after a week."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}


@contextlib.contextmanager
def spooled(pieces: Iterable[bytes], what: str) -> Iterator[IO[bytes]]:
    """A file of them, from its beginning, until the block ends. Raises the typed error of a disk that does not take it,
    which is none of the bucket's."""
    with _taken_by_tmpdir(what):
        spool = TemporaryFile()  # noqa: SIM115
    try:
        for piece in pieces:  # what it raises itself says more
            with _taken_by_tmpdir(what):
                spool.write(piece)
        with _taken_by_tmpdir(what):
            spool.seek(0)
        yield spool
    finally:
        with contextlib.suppress(OSError):  # what was not taken is written once more
            spool.close()


@contextlib.contextmanager
def _taken_by_tmpdir(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = f"{what}: is put together in a file here before it is sent"
        raise errors.from_os_error(OSError(error.errno, f"{error.strerror}: {_TMPDIR}"), where) from error


@contextlib.contextmanager
def _refused(what: str) -> Iterator[None]:
    """Says of Google's errors what was asked for."""
    try:
        from google.api_core import exceptions
        from google.auth.exceptions import GoogleAuthError
    except ImportError as error:
        raise errors.InvalidArgumentError("-o gs://: pip install '.[gcs]' in a clone of tfquiver") from error
    try:
        yield
    except exceptions.NotFound as error:
        raise errors.NotFoundError(f"{what}: {error.message}") from error
    except (exceptions.Forbidden, exceptions.Unauthorized, GoogleAuthError) as error:
        raise errors.PermissionError_(f"{what}: {error}") from error
    except (exceptions.GoogleAPIError, OSError) as error:
        raise errors.UnavailableError(f"{what}: {error}") from error
