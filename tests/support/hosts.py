"""Hosts on one network: a network namespace each, joined by a bridge, real TCP between them.

Needs root and iproute2. The process that makes them is on the network too, so that it can call servers there. Whatever
happens, `close` removes all of it; what a killed process has left, the next one removes.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

import psutil

_PREFIX = "tfq"
_NAMES = re.compile(rf"{_PREFIX}(\d+)-\w+")
_COMMAND_S = 10.0
_CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)


class HostsError(Exception):
    """This machine cannot make them; says why."""


class Hosts:
    """Use as a context manager; raises HostsError where the machine does not allow it."""

    def __init__(self, names: Sequence[str], racks: Mapping[str, str] | None = None) -> None:
        """`racks`: of those hosts that stand in one: they are joined there; a rack has one link to the others."""
        self._names, self._racks = list(names), dict(racks or {})
        # 198.18.0.0/15 is kept for measurements (RFC 2544): nobody routes it.
        self._net = f"198.18.{os.getpid() % 256}"
        self._made: list[str] = []

    def __enter__(self) -> Hosts:
        if os.geteuid() != 0 or not (shutil.which("ip") and shutil.which("tc")):
            raise HostsError("network namespaces need root and iproute2 (ip, tc)")
        try:
            self._remove_stale()
            self._make()
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            self.close()
            said = (error.stderr or b"").decode(errors="replace").strip()
            raise HostsError(f"no network namespaces here: {error}: {said}") from error
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def address(self, host: str) -> str:
        return f"{self._net}.{self._names.index(host) + 2}"

    def prefix(self, host: str) -> list[str]:
        """Of a command that is to run there."""
        return ["ip", "netns", "exec", self._space(host)]

    def limit(self, host: str, bytes_per_s: int) -> None:
        """What it sends, with all headers."""
        rate = f"{bytes_per_s}bps"
        _run("tc", "-n", self._space(host), *f"qdisc replace dev eth0 root tbf rate {rate} burst 64kb".split(),
             "latency", "1000ms")  # fmt: skip

    def cut_off(self, host: str) -> None:
        """As if its cable were pulled: nobody is told."""
        self._cable(host, "down")

    def connect(self, host: str) -> None:
        self._cable(host, "up")

    def sent_bytes(self, host: str) -> int:
        """Since it was made."""
        link = _run("ip", "-n", self._space(host), "-s", "-j", "link", "show", "dev", "eth0")
        return int(json.loads(link)[0]["stats64"]["tx"]["bytes"])

    def crossed_bytes(self, rack: str) -> tuple[int, int]:
        """Into the rack and out of it, with all headers, since it was made."""
        link = _run("ip", "-n", self._space("lan"), "-s", "-j", "link", "show", "dev", f"up-{rack}")
        counted = json.loads(link)[0]["stats64"]
        return int(counted["rx"]["bytes"]), int(counted["tx"]["bytes"])

    def listener(self, host: str) -> socket.socket:
        """A listening socket of this process on a free port of that host."""
        made: list[socket.socket | OSError] = []

        def make() -> None:
            # A socket belongs for ever to the namespace of the thread that made it.
            with Path("/var/run/netns", self._space(host)).open() as space:
                if _LIBC.setns(space.fileno(), _CLONE_NEWNET):
                    made.append(OSError(ctypes.get_errno(), f"setns {host}"))
                    return
            made.append(socket.create_server((self.address(host), 0), backlog=64))

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        (result,) = made
        if isinstance(result, OSError):
            raise result
        return result

    def close(self) -> None:
        # A namespace's cables go some time after it, and the next hosts of this process have this one's name.
        own = ["ip", "link", "del", f"{_PREFIX}{os.getpid()}"]
        subprocess.run(own, check=False, capture_output=True, timeout=_COMMAND_S)
        for space in reversed(self._made):
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True, timeout=_COMMAND_S)
        self._made.clear()

    def _make(self) -> None:
        # The bridge has a namespace of its own: with it go all cables, this process's end included.
        lan = self._add("lan")
        _run("ip", "-n", lan, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", lan, "link", "set", "dev", "bridge", "up")
        for rack in sorted(set(self._racks.values())):
            _run("ip", "-n", lan, "link", "add", f"rack-{rack}", "type", "bridge")
            _run("ip", "-n", lan, "link", "set", "dev", f"rack-{rack}", "up")
            _run("ip", "-n", lan, "link", "add", f"up-{rack}", "type", "veth", "peer", "name", f"down-{rack}")
            for link, bridge in ((f"up-{rack}", f"rack-{rack}"), (f"down-{rack}", "bridge")):
                _run("ip", "-n", lan, "link", "set", "dev", link, "master", bridge, "up")
        own = f"{_PREFIX}{os.getpid()}"
        self._plug("self", own, [])
        _run("ip", "addr", "add", f"{self._net}.1/24", "dev", own)
        _run("ip", "link", "set", "dev", own, "up")
        for host in self._names:
            space = self._add(host)
            self._plug(host, "eth0", ["netns", space])
            _run("ip", "-n", space, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                _run("ip", "-n", space, "link", "set", "dev", link, "up")

    def _add(self, name: str) -> str:
        space = self._space(name)
        _run("ip", "netns", "add", space)
        self._made.append(space)
        return space

    def _plug(self, port: str, link: str, where: Sequence[str]) -> None:
        lan = self._space("lan")
        _run("ip", "link", "add", link, *where, "type", "veth", "peer", "name", port, "netns", lan)
        bridge = f"rack-{self._racks[port]}" if port in self._racks else "bridge"
        _run("ip", "-n", lan, "link", "set", "dev", port, "master", bridge, "up")

    def _cable(self, host: str, state: str) -> None:
        _run("ip", "-n", self._space("lan"), "link", "set", "dev", host, state)

    def _space(self, name: str) -> str:
        return f"{_PREFIX}{os.getpid()}-{name}"

    def _remove_stale(self) -> None:
        for line in _run("ip", "netns", "list").decode().splitlines():
            if (match := _NAMES.match(line)) and not psutil.pid_exists(int(match[1])):
                _run("ip", "netns", "del", match[0])


def _run(*command: str) -> bytes:
    return subprocess.run(command, check=True, capture_output=True, timeout=_COMMAND_S).stdout
