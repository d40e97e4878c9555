"""A real Prometheus with the files of configs/, for tests: it scrapes twice a second."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support import fixed_ports
from tests.support.cluster import die_with_parent

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "prometheus"
_FOR, _WINDOW = re.compile(r"^(\s+for:) \w+$", re.MULTILINE), re.compile(r"\[\d\w+")


def quick_rules(window: str) -> str:
    """The shipped rules, but for their durations: nothing is waited for, and they look back over `window`."""
    return _WINDOW.sub(f"[{window}", _FOR.sub(r"\1 0s", (CONFIGS / "alerts.yml").read_text()))


class Prometheus:
    """`targets`: host:port, or the file that has them. `window`: as in `quick_rules`; empty: as they are shipped, but
    for their patience."""

    def __init__(self, folder: Path, targets: Sequence[str] | Path, window: str = "") -> None:
        folder.mkdir()
        if isinstance(targets, Path):
            found = f"file_sd_configs: [{{files: [{targets}]}}]\n"
        else:
            found = f"static_configs: [{{targets: {json.dumps(list(targets))}}}]\n"
        config = re.sub(r"(?s)static_configs:.*", found, (CONFIGS / "prometheus.yml").read_text())
        (folder / "prometheus.yml").write_text(config.replace("15s", "500ms"))
        rules = quick_rules(window) if window else _FOR.sub(r"\1 0s", (CONFIGS / "alerts.yml").read_text())
        (folder / "alerts.yml").write_text(rules)
        port = fixed_ports.free_port()
        self._url = f"http://127.0.0.1:{port}/api/v1"
        command = [
            "prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
        ]  # fmt: skip
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, preexec_fn=die_with_parent)

    def _get(self, path: str, **query: str) -> Any:
        url = f"{self._url}/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # not ready yet
                raise
            raise AssertionError(f"{url}: {error.read().decode()}") from error

    def values(self, query: str) -> list[float]:
        try:
            return [float(one["value"][1]) for one in self._get("query", query=query)["result"]]
        except OSError:  # not listening yet
            return []

    def firing(self) -> set[str]:
        return {one["labels"]["alertname"] for one in self._get("alerts")["alerts"] if one["state"] == "firing"}

    def fired(self) -> set[str]:
        """Those that fire, or have."""
        query = 'count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1h]))'
        try:
            return {one["metric"]["alertname"] for one in self._get("query", query=query)["result"]}
        except OSError:
            return set()

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(20)
        self._log.close()
