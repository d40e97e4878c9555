"""The import contracts hold, each catches a planted violation, and no server of the cache loads TensorFlow."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytest.importorskip("importlinter")


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        "tfquiver",
        "tfquiver.cli.main",
        "tfquiver.node_daemon_and_notes_in_directories.daemon",
        "tfquiver.reader",
        "tfquiver.service.coordinator.main",
        "tfquiver.service.node.main",
        "tfquiver.testing.emulated_store",
    ],
)
def test_importing_does_not_import_tensorflow(module: str) -> None:
    check = f"import sys, {module}; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT).returncode == 0


@pytest.mark.slow
def test_a_trainer_does_not_wait_for_grpc_to_be_imported() -> None:
    check = "import sys, tfquiver; tfquiver.dataset; sys.exit('grpc' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT).returncode == 0


VIOLATIONS = [
    ("service/coordinator/sessions/sessions.py", "import time", "Pure parts"),
    ("service/coordinator/coordinator.py", "import tensorflow", "never import TensorFlow"),
    (
        "service/node/shards_from_disk_other_nodes_or_store/fetcher.py",
        "import tfquiver.service.coordinator.samplers_and_orders_of_an_epochs_shards.sampler",
        "do not import one another",
    ),
    ("tfquiver/errors.py", "import tfquiver.scanning.tfrecord", "Imports point down"),
    (
        "service/coordinator/registering_sharing_removing_datasets/registry.py",
        "import tfquiver.stores",
        "Only nodes read",
    ),
]


@pytest.mark.slow
def test_planted_violations_are_caught_each_by_its_own_contract(tmp_path: Path) -> None:
    ignore = shutil.ignore_patterns(
        "__pycache__", "*.so", "core", "tf", "tf_data_transfer_plugin", "reader_library_without_tensorflow"
    )
    for folder in ("tfquiver", "service", "ops"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True, ignore=ignore)
    shutil.copy(ROOT / ".importlinter", tmp_path)
    for module, line, _ in VIOLATIONS:
        path = tmp_path / module
        path.write_text(path.read_text() + f"\n{line}\n")
    found = _lint(tmp_path)
    assert found.returncode != 0
    broken = [text for text in found.stdout.splitlines() if " BROKEN" in text]
    assert len(broken) == len(VIOLATIONS), found.stdout
    assert all(any(contract in text for text in broken) for _, _, contract in VIOLATIONS), broken


def _lint(root: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True)
