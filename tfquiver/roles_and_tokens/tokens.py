"""Tokens on the server's side: a file with one line `role name sha256` for each, read again when it changes.

The file holds hashes only: whoever reads it learns no token. `tfquiver token new` makes a token and its line.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import time
from pathlib import Path

from absl import logging

from tfquiver import errors
from tfquiver.log_files_and_lines.rare_lines import every_n_seconds
from tfquiver.roles_and_tokens.identity import EVERYBODY, Identity, Role, check_name, wrong_token
from tfquiver.sizes_durations_amounts.amounts import many

_MAX_FILE_BYTES = 4 << 20
_LOOK_S = 1.0
_HASH_BYTES = 32


def hash_of(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def new_token(role: Role, name: str) -> tuple[str, str]:
    """A token, and the line of it. Raises InvalidArgumentError naming a name that cannot be."""
    check_name(name)
    token = f"tfq-{role}-{secrets.token_urlsafe(32)}"
    return token, f"{role} {name} {hash_of(token).hex()}"


def parse(text: str, where: str) -> dict[bytes, Identity]:
    """Identities by the SHA-256 of their token. Raises InvalidArgumentError naming `where` and the line."""
    found: dict[bytes, Identity] = {}
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        try:
            identity, hash = _line(fields)
            if found.setdefault(hash, identity) != identity:
                raise errors.InvalidArgumentError("this token stands for another identity above")
        except errors.InvalidArgumentError as error:
            raise errors.InvalidArgumentError(f"{where}, line {number}: {error}") from None
    return found


def _line(fields: list[str]) -> tuple[Identity, bytes]:
    if len(fields) != 3:
        raise errors.InvalidArgumentError(f"{len(fields)} words; it has three: role, name, SHA-256 of the token")
    role, name, digits = fields
    if role not in tuple(Role):
        raise errors.InvalidArgumentError(f"role {role!r}: it is admin, node or job")
    check_name(name)
    try:
        hash = bytes.fromhex(digits)
    except ValueError:
        hash = b""
    if len(hash) != _HASH_BYTES:
        raise errors.InvalidArgumentError(
            f"the token of {name}: its SHA-256 is 64 digits, not {len(digits)} characters"
        )
    return Identity(Role(role), name), hash


class SharedToken:
    """One token for all: whoever shows it may do everything."""

    named = False

    def __init__(self, token: str) -> None:
        self._hash = hash_of(token)

    async def identify(self, token: str) -> Identity:
        if found := self.by_hash(hash_of(token)):
            return found
        raise wrong_token(token)

    def by_hash(self, hash: bytes) -> Identity | None:
        return EVERYBODY if hmac.compare_digest(hash, self._hash) else None


class TokenFile:
    """The identities of a file; changes hold within a second or two. A file that cannot be read any more, or is wrong,
    changes nothing and is logged.

    Args:
      shared: a token beside the file's, which may do everything; "" for none.

    Raises InvalidArgumentError naming flag and line.
    """

    named = True

    def __init__(self, path: Path, shared: str = "") -> None:
        self._path, self._shared = path, SharedToken(shared) if shared else None
        self._stamp = self._look()
        self._identities = self._read()
        self._looked_at = time.monotonic()

    async def identify(self, token: str) -> Identity:
        if found := self.by_hash(hash_of(token)):
            return found
        raise wrong_token(token)

    def by_hash(self, hash: bytes) -> Identity | None:
        """Looking up a hash tells nothing about a token by the time that it takes: nobody can choose the hash."""
        self._refresh()
        return self._identities.get(hash) or (self._shared.by_hash(hash) if self._shared else None)

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < _LOOK_S:
            return
        self._looked_at = now
        try:
            stamp = self._look()
            if stamp != self._stamp:
                self._identities, self._stamp = self._read(), stamp
                logging.info("%s was read again: %s", self._path, many(len(self._identities), "token"))
        except errors.InvalidArgumentError as error:
            every_n_seconds(logging.ERROR, "%s; the tokens of before stay", 60, error)

    def _look(self) -> tuple[int, int, int, int]:
        try:
            status = self._path.stat()
        except (OSError, ValueError) as error:
            raise errors.InvalidArgumentError(f"--tokens_file={self._path}: {error}") from error
        return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode

    def _read(self) -> dict[bytes, Identity]:
        try:
            with self._path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                    logging.warning(
                        "--tokens_file=%s can be written by others, who can make themselves admin", self._path
                    )
                data = file.read(_MAX_FILE_BYTES + 1)
            if len(data) > _MAX_FILE_BYTES:
                raise errors.InvalidArgumentError(f"--tokens_file={self._path}: more than {_MAX_FILE_BYTES} bytes")
            return parse(data.decode(), f"--tokens_file={self._path}")
        except OSError as error:
            raise errors.InvalidArgumentError(f"--tokens_file={self._path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise errors.InvalidArgumentError(f"--tokens_file={self._path}: it is not UTF-8 text") from error
