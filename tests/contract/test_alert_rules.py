"""configs/prometheus/alerts.yml under Prometheus' own rule tester: each alert fires when it is to, and not else."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.promtool import needs_prometheus

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
ALERTS = CONFIGS / "prometheus" / "alerts.yml"
NAMES = re.findall(r"alert: (\w+)", ALERTS.read_text())
MINUTES = 40


@dataclass(frozen=True)
class Case:
    """Series as they are when all is well, and as they are when somebody should look."""

    well: dict[str, str]
    ill: dict[str, str]
    labels: dict[str, str]


def steady(value: float) -> str:
    return f"{value}x{MINUTES}"


def rising(by: float) -> str:
    return f"0+{by}x{MINUTES}"


def histogram(name: str, le_s: float, slow: bool, **labels: str) -> dict[str, str]:
    """A call a second, each of which takes more, or none of which takes more, than `le_s`."""
    text = "".join(f',{key}="{value}"' for key, value in labels.items())
    return {
        f'{name}_bucket{{instance="n",le="{le_s:g}"{text}}}': rising(0 if slow else 60),
        f'{name}_bucket{{instance="n",le="{4 * le_s:g}"{text}}}': rising(60),
        f'{name}_bucket{{instance="n",le="+Inf"{text}}}': rising(60),
    }


def of_node(name: str, value: str) -> dict[str, str]:
    return {f'{name}{{instance="n"}}': value}


def alike(name: str, well: str, ill: str, **labels: str) -> Case:
    series = f"{name}{{{','.join(f'{key}={json.dumps(value)}' for key, value in labels.items())}}}"
    return Case({series: well}, {series: ill}, labels)


LAG, SYNC, FETCH = "tfquiver_event_loop_lag_seconds", "tfquiver_commit_log_sync_seconds", "tfquiver_node_fetch_seconds"


def refused(reason: str) -> dict[str, str]:
    return {f'tfquiver_node_refused_inserts_total{{instance="n",reason="{reason}"}}': rising(1)}


CASES = {
    "TfquiverServerDown": alike("up", steady(1), steady(0), job="tfquiver", instance="n"),
    "TfquiverNodeLost": alike("tfquiver_coordinator_lost_nodes", steady(0), steady(1), instance="c"),
    "TfquiverWorkerSilent": alike("tfquiver_coordinator_silent_workers", steady(0), steady(2), instance="c"),
    "TfquiverDispatcherLost": alike("tfquiver_coordinator_lost_dispatchers", steady(0), steady(1), instance="c"),
    "TfquiverLoopLate": Case(histogram(LAG, 0.25, False), histogram(LAG, 0.25, True), {"instance": "n"}),
    "TfquiverCommitLogStuck": alike("tfquiver_coordinator_commit_log_stuck", steady(0), steady(1), instance="c"),
    "TfquiverCommitLogSlow": Case(histogram(SYNC, 1, False), histogram(SYNC, 1, True), {"instance": "n"}),
    "TfquiverCorruptEntries": alike("tfquiver_node_corrupt_entries_total", steady(3), rising(1), instance="n"),
    "TfquiverPeerMismatches": alike("tfquiver_node_peer_mismatches_total", steady(3), rising(1), instance="n"),
    "TfquiverDiskRefuses": Case(refused("quota"), refused("disk"), {"instance": "n", "reason": "disk"}),
    "TfquiverDiskHangs": alike("tfquiver_node_disk_hangs_seconds", steady(0), steady(41), instance="n"),
    "TfquiverJobStarved": Case(
        {
            'tfquiver_job_stall_ratio{training_job="j"}': steady(0.3),
            'tfquiver_job_bytes_per_second{training_job="j"}': steady(1),
        },
        {
            'tfquiver_job_stall_ratio{training_job="j"}': steady(0.7),
            'tfquiver_job_bytes_per_second{training_job="j"}': steady(1),
        },
        {"training_job": "j"},
    ),
    "TfquiverStoreSlow": Case(
        histogram(FETCH, 5, False, source="store"), histogram(FETCH, 5, True, source="store"), {"instance": "n"}
    ),
    "TfquiverCallsFail": alike("tfquiver_rpc_faults_total", steady(3), rising(1), instance="n", method="Lease"),
}


def test_every_alert_has_a_case_and_every_series_a_server_that_tells_it() -> None:
    assert set(CASES) == set(NAMES)
    sources = "".join(path.read_text() for path in (CONFIGS.parent / "service").rglob("*metrics*.py"))
    sources += "".join(path.read_text() for path in (CONFIGS.parent / "service" / "metrics").glob("*.py"))
    used = ALERTS.read_text() + (CONFIGS / "grafana" / "tfquiver.json").read_text()
    for name in set(re.findall(r"tfquiver_(\w+)", used)):
        plain = re.sub(r"_(bucket|count|sum|total)$", "", name)
        told = plain in sources or plain.removeprefix("coordinator_") in sources or plain == "build_info"
        assert told, f"no server tells tfquiver_{name}"


@pytest.mark.slow
@needs_prometheus
@pytest.mark.parametrize("name", NAMES)
def test_it_fires_when_somebody_should_look_and_not_before(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    for series, fires in ((case.well, False), (case.ill, True)):
        done = _fires(name, series, case.labels, fires, tmp_path)
        assert done.returncode == 0, f"fires={fires}: {done.stdout}{done.stderr}"
        done = _fires(name, series, case.labels, not fires, tmp_path)
        assert done.returncode != 0, "the tester would have found out"


@needs_prometheus
@pytest.mark.parametrize(
    ("values", "fires"),
    [
        (f"0x{MINUTES - 4} 1x3", True),
        (f"0x{MINUTES - 10} 1x9", False),
        (f"5x3 _x{MINUTES - 8} 5x4", False),
        (f"_x{MINUTES - 3} 5x3", False),
    ],
    ids=["now", "a while ago", "before a gap", "before Prometheus"],
)
def test_a_call_that_fails_once_is_told_of_for_a_while_and_once(values: str, fires: bool, tmp_path: Path) -> None:
    labels = {"instance": "n", "method": "Lease"}
    series = {'tfquiver_rpc_faults_total{instance="n",method="Lease"}': values}
    done = _fires("TfquiverCallsFail", series, labels, fires, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_prometheus
def test_a_job_that_is_given_nothing_at_all_is_starved(tmp_path: Path) -> None:
    """As where the store hangs: it was the one starved job that nobody was told of."""
    labels = {"training_job": "j"}
    series = {
        'tfquiver_job_stall_ratio{training_job="j"}': steady(1),
        'tfquiver_job_bytes_per_second{training_job="j"}': steady(0),
    }
    done = _fires("TfquiverJobStarved", series, labels, True, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def _fires(
    name: str, series: dict[str, str], labels: dict[str, str], fires: bool, folder: Path
) -> subprocess.CompletedProcess[str]:
    rules = {
        # What texts say is checked by eye: expressions and times are what is tested.
        "groups": [{"name": "tested", "rules": [_rule(name)]}]
    }
    expected = [{"exp_labels": {**labels, "severity": _rule(name)["labels"]["severity"]}}] if fires else []
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": one, "values": values} for one, values in series.items()],
                "alert_rule_test": [{"eval_time": f"{MINUTES - 1}m", "alertname": name, "exp_alerts": expected}],
            }
        ],
    }
    (folder / "rules.yml").write_text(json.dumps(rules))  # JSON is YAML
    (folder / "test.yml").write_text(json.dumps(test))
    return subprocess.run(["promtool", "test", "rules", "test.yml"], cwd=folder, capture_output=True, text=True)


def _rule(name: str) -> dict[str, dict[str, str]]:
    yaml = pytest.importorskip("yaml")
    [rule] = [
        rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]
        if rule["alert"] == name
    ]  # fmt: skip
    return {key: value for key, value in rule.items() if key != "annotations"}


@needs_prometheus
def test_prometheus_takes_the_files() -> None:
    done = subprocess.run(
        ["promtool", "check", "config", str(CONFIGS / "prometheus" / "prometheus.yml")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
