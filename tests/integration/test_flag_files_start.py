"""configs/*.flags, taken literally but for ports and the directory above all, make a cluster that reads, and that
Prometheus finds where configs/prometheus looks."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import tfquiver
from tests.support import numbered
from tests.support.cluster import Server

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
SCRAPED = (CONFIGS / "prometheus" / "prometheus.yml").read_text()


def metrics_address(flags: str) -> str:
    """As the file has it; empty: nowhere."""
    found = re.search("^--metrics_address=(.+)$", flags, re.MULTILINE)
    return found[1] if found else ""


def test_the_four_files_make_a_cluster(tmp_path: Path) -> None:
    ports = {"5040": "0", "5050": "0", "5051": "0"}
    started: dict[str, Server] = {}
    try:
        for kind, port in (("coordinator", "5040"), ("node", ""), ("dispatcher", "5050"), ("worker", "5051")):
            text = (CONFIGS / f"{kind}.flags").read_text().replace("=/var/", f"={tmp_path}/var/")
            assert f"- {metrics_address(text)}  # {kind}\n" in SCRAPED, "where Prometheus looks"
            text = text.replace(metrics_address(text), "localhost:0")
            text = re.sub(r"(=|:)(50[45][01])$", lambda m: m[1] + ports[m[2]], text, flags=re.MULTILINE)
            path = tmp_path / f"{kind}.flags"
            path.write_text(text)
            server = Server(f"tfquiver.service.{kind}.main", [f"--flagfile={path}"], tmp_path / f"{kind}.log")
            started[kind] = server.start()
            assert (
                "tfquiver_build_info"
                in urllib.request.urlopen(f"http://{server.ready['metrics']}/metrics", timeout=20).read().decode()
            )
            if port:
                ports[port] = str(server.port)
        paths = numbered.write(tmp_path / "data", 2, 100, 100)
        read = tfquiver.dataset(paths, service=started["coordinator"].address)
        shared = read.apply(tfquiver.distribute(started["dispatcher"].address))
        numbered.assert_each_once(numbered.read(shared), 200)
    finally:
        for server in reversed(started.values()):
            server.stop()
