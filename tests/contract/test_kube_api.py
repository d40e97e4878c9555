"""The API server that the operator is tested against, held to what the real kubectl makes of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.kube_api import KubeApi
from tests.support.kubectl import OVERLAYS, built, documents, kubectl, needs_kubectl

pytestmark = needs_kubectl


def call(api: KubeApi, folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "kubeconfig").write_text(api.kubeconfig())
    env = {**os.environ, "KUBECONFIG": str(folder / "kubeconfig"), "HOME": str(folder)}
    return kubectl(*arguments, stdin=stdin, env=env)


@pytest.mark.slow
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubectl_would_create_every_object(tmp_path: Path, overlay: str) -> None:
    """`kubectl apply --dry-run=client` asks a server which resources there are, and changes nothing there."""
    crds = tuple(one for one in documents(overlay) if one["kind"] == "CustomResourceDefinition")
    with KubeApi(crds) as api:
        done = call(api, tmp_path, "apply", "--dry-run=client", "--validate=false", "-f", "-", stdin=built(overlay))
        assert done.returncode == 0, done.stderr
        lines = done.stdout.strip().splitlines()
        assert len(lines) == len(documents(overlay))
        assert all(line.endswith("(dry run)") for line in lines)
        assert api.all("daemonsets") == []


@pytest.mark.slow
def test_kubectl_makes_shows_changes_and_deletes(tmp_path: Path) -> None:
    with KubeApi() as api:
        given = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "1"}}'
        made = call(api, tmp_path, "create", "--validate=false", "-f", "-", stdin=given)
        assert made.returncode == 0, made.stderr
        again = call(api, tmp_path, "create", "--validate=false", "-f", "-", stdin=given)
        assert "AlreadyExists" in again.stderr
        shown = call(api, tmp_path, "get", "configmap", "one", "-o", "jsonpath={.data.a}")
        assert shown.stdout == "1"
        patch = '{"data": {"a": null, "b": "2"}, "metadata": {"finalizers": ["test/held"]}}'
        assert call(api, tmp_path, "patch", "configmap", "one", "--type=merge", "-p", patch).returncode == 0
        call(api, tmp_path, "delete", "configmap", "one", "--wait=false")
        held = api.get("configmaps", "one")
        assert held and held["data"] == {"b": "2"} and held["metadata"]["deletionTimestamp"]
        operations = '[{"op": "remove", "path": "/metadata/finalizers/0"}]'
        assert call(api, tmp_path, "patch", "configmap", "one", "--type=json", "-p", operations).returncode == 0
        assert api.get("configmaps", "one") is None
        assert "NotFound" in call(api, tmp_path, "get", "configmap", "one").stderr


def test_kubectl_waits_for_a_watch(tmp_path: Path) -> None:
    with KubeApi() as api:
        api.create("nodes", {"metadata": {"name": "n"}})
        condition = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        api.patch("nodes", "n", {"status": {}}, namespace="", status=True)
        (tmp_path / "kubeconfig").write_text(api.kubeconfig())
        command = ["kubectl", "wait", "--for=condition=Ready", "node/n", "--timeout=30s"]
        env = {**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig"), "HOME": str(tmp_path)}
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        api.patch("nodes", "n", condition, namespace="", status=True)
        out, err = waiting.communicate(timeout=60)
        assert (waiting.returncode, out) == (0, "node/n condition met\n"), err
