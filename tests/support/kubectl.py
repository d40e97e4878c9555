"""The real kubectl, where there is one that can build these manifests."""

from __future__ import annotations

import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "kubernetes"
OVERLAYS = ("minimal", "production", "gcs")
_LEAST_MINOR = 27  # kustomize 5
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # in C where it is built so: a tenth of the time


@cache
def missing() -> str:
    """Why there is none; "": there is."""
    if not (found := shutil.which("kubectl")):
        return "kubectl is missing: see https://kubernetes.io/docs/tasks/tools/"
    done = subprocess.run([found, "version", "--client", "-o", "json"], capture_output=True, text=True, timeout=60)
    minor = int("".join(filter(str.isdigit, json.loads(done.stdout)["clientVersion"]["minor"])))
    return "" if minor >= _LEAST_MINOR else f"kubectl 1.{minor} is older than 1.{_LEAST_MINOR}"


needs_kubectl = pytest.mark.skipif(bool(missing()), reason=missing() or "never said")


def kubectl(*arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = ["kubectl", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, env=env)


@cache
def built(overlay: str) -> str:
    """The overlay as one stream of YAML documents."""
    done = kubectl("kustomize", str(CONFIGS / "overlays" / overlay))
    assert done.returncode == 0, done.stderr
    return done.stdout


def documents(overlay: str) -> list[dict[str, Any]]:
    return [document for document in yaml.load_all(built(overlay), _LOADER) if document]


def pod_spec(document: dict[str, Any]) -> dict[str, Any] | None:
    """Of what makes pods."""
    found = document.get("spec", {}).get("template", {}).get("spec")
    return found if isinstance(found, dict) else None
