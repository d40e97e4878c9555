"""A Google Cloud Storage emulator behind a byte rate, as a process of its own; and its handle.

with EmulatedStore.start(bytes_per_s=1 << 20) as store:
    store.put("bucket", "train-0.tfrecord", data)      # straight into the emulator: neither slowed nor counted
    os.environ["STORAGE_EMULATOR_HOST"] = store.url    # what clients read is both
    ...
    print(store.traffic())
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import urllib.parse
import urllib.request
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tfquiver import errors
from tfquiver.service.common_to_servers import serving
from tfquiver.testing.throttled_store import PIECE_BYTES, RATE_PATH, TRAFFIC_PATH, ThrottledStore, Traffic

_CALL_DEADLINE_S = 30.0
_STOP_DEADLINE_S = 5.0


@dataclass
class StoreClient:
    """A running store. `url` is what STORAGE_EMULATOR_HOST takes."""

    url: str
    upstream_url: str

    @classmethod
    def of(cls, ready: dict[str, Any]) -> StoreClient:
        """From the fields of the process's ready line."""
        return cls(f"http://127.0.0.1:{ready['port']}", f"http://127.0.0.1:{ready['upstream_port']}")

    def make_bucket(self, bucket: str) -> None:
        self._post(f"/storage/v1/b?project={bucket}", "application/json", json.dumps({"name": bucket}).encode())

    def put(self, bucket: str, name: str, data: bytes) -> None:
        """Writes an object; a new generation of it when it is there already. The bucket must be there."""
        query = urllib.parse.urlencode({"uploadType": "media", "name": name})
        self._post(f"/upload/storage/v1/b/{bucket}/o?{query}", "application/octet-stream", data)

    def traffic(self) -> Traffic:
        with urllib.request.urlopen(self.url + TRAFFIC_PATH, timeout=_CALL_DEADLINE_S) as reply:
            return Traffic(**json.load(reply))

    def change_rate(self, bytes_per_s: float) -> None:
        """From now on, for all who read; 0: no limit."""
        with urllib.request.urlopen(f"{self.url}{RATE_PATH}{bytes_per_s}", timeout=_CALL_DEADLINE_S) as reply:
            reply.read()

    def _post(self, path: str, content_type: str, data: bytes) -> None:
        # The emulator keeps the host it was called by in an object's mediaLink, which is where clients read it from.
        headers = {"Content-Type": content_type, "Host": self.url.removeprefix("http://")}
        request = urllib.request.Request(self.upstream_url + path, data, headers)
        with urllib.request.urlopen(request, timeout=_CALL_DEADLINE_S) as reply:
            reply.read()


@dataclass
class EmulatedStore(StoreClient):
    """The store and its process; a context manager."""

    process: subprocess.Popen[str]

    @classmethod
    def start(
        cls, bytes_per_s: float = 0, piece_bytes: int = PIECE_BYTES, latency_s: float = 0, keeps: bool = False
    ) -> EmulatedStore:
        """Starts the process; `bytes_per_s` of 0 means no limit; the others as in ThrottledStore. Raises
        UnavailableError when it does not come up."""
        options = [f"--bytes_per_s={bytes_per_s}", f"--piece_bytes={piece_bytes}", f"--latency_s={latency_s}"]
        options += ["--keeps"] if keeps else []
        command = [sys.executable, "-m", "tfquiver.testing.emulated_store", *options]
        # A session of its own: Ctrl-C is the parent's to handle, and it stops the store last.
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            process.stdout.close()
            raise errors.UnavailableError(f"the store emulator ended with exit code {process.wait()}: its log is above")
        where = StoreClient.of(json.loads(line))
        return cls(where.url, where.upstream_url, process)

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(_STOP_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()

    def __enter__(self) -> EmulatedStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _start_emulator() -> tuple[Any, int]:
    from gcp_storage_emulator.server import create_server

    emulator = create_server("127.0.0.1", 0, in_memory=True)
    emulator.start()
    # The emulator has no call that tells the port it was given.
    port: int = emulator._api._httpd.server_address[1]
    return emulator, port


async def _serve(arguments: argparse.Namespace) -> None:
    stop = serving.stop_event()
    try:
        emulator, upstream_port = _start_emulator()
    except ImportError as error:
        raise errors.UnavailableError(f"{error}: pip install '.[demo]' in a clone of tfquiver") from error
    store = ThrottledStore(
        upstream_port,
        arguments.bytes_per_s,
        arguments.piece_bytes,
        latency_s=arguments.latency_s,
        keeps=arguments.keeps,
    )
    try:
        serving.announce("object_store", port=await store.start(), upstream_port=upstream_port)
        await stop.wait()
    finally:
        await store.stop()
        emulator.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes_per_s", type=float, default=0.0, help="shared by all connections; 0: no limit")
    parser.add_argument("--piece_bytes", type=int, default=PIECE_BYTES, help="of one reply, before others have a turn")
    parser.add_argument("--latency_s", type=float, default=0.0, help="before the first byte of each reply")
    parser.add_argument("--keeps", action="store_true", help="objects are held in front of the emulator once read")
    arguments = parser.parse_args()
    serving.die_with_parent()
    try:
        asyncio.run(_serve(arguments))
    except errors.TfquiverError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
