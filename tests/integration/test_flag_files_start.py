"""configs/*.flags, taken literally but for ports and the directory above all, make a cluster that reads."""

from __future__ import annotations

import re
from pathlib import Path

import tfquiver
from tests.support import numbered
from tests.support.cluster import Server

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


def test_the_four_files_make_a_cluster(tmp_path: Path) -> None:
    ports = {"5040": "0", "5050": "0", "5051": "0"}
    started: dict[str, Server] = {}
    try:
        for kind, port in (("coordinator", "5040"), ("node", ""), ("dispatcher", "5050"), ("worker", "5051")):
            text = (CONFIGS / f"{kind}.flags").read_text().replace("=/var/", f"={tmp_path}/var/")
            text = re.sub(r"(=|:)(50[45][01])$", lambda m: m[1] + ports[m[2]], text, flags=re.MULTILINE)
            path = tmp_path / f"{kind}.flags"
            path.write_text(text)
            server = Server(f"tfquiver.service.{kind}.main", [f"--flagfile={path}"], tmp_path / f"{kind}.log")
            started[kind] = server.start()
            if port:
                ports[port] = str(server.port)
        paths = numbered.write(tmp_path / "data", 2, 100, 100)
        read = tfquiver.dataset(paths, service=started["coordinator"].address)
        shared = read.apply(tfquiver.distribute(started["dispatcher"].address))
        numbered.assert_each_once(numbered.read(shared), 200)
    finally:
        for server in reversed(started.values()):
            server.stop()
