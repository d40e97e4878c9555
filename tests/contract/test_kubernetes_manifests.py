"""configs/kubernetes: Kubernetes would take it, and so would our servers."""

from __future__ import annotations

import re
import sys
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support import warm
from tests.support.kubectl import CONFIGS, OVERLAYS, documents, kubectl, needs_kubectl, pod_spec
from tfquiver.cli.main import parser
from tfquiver.service.extender import server
from tfquiver.version import VERSION

pytestmark = [needs_kubectl, pytest.mark.slow]
SCHEMAS = ("1.28", "1.32", kubernetes_validate.latest_version())
USER = 10001


def containers(overlay: str, inits: bool = False) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(name of what makes the pod, the pod, a container of it)."""
    kinds = ("initContainers", "containers") if inits else ("containers",)
    return [
        (document["metadata"]["name"], spec, container)
        for document in documents(overlay)
        if (spec := pod_spec(document)) is not None
        for kind in kinds
        for container in spec.get(kind, [])
    ]


def command_of(container: dict[str, Any]) -> list[str]:
    """With the environment that Kubernetes puts in; all that it names must be there."""
    words = [*container["command"], *container.get("args", [])]
    env = {variable["name"] for variable in container.get("env", [])}
    named = {name for word in words for name in re.findall(r"\$\((\w+)\)", word)}
    assert named <= env, f"not in env: {named - env}"
    return [re.sub(r"\$\((\w+)\)", "10.0.0.7", word) for word in words]


@pytest.mark.slow
@pytest.mark.parametrize("version", SCHEMAS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_is_of_the_published_schema(overlay: str, version: str) -> None:
    """Strictly: a field that the schema does not know is an error."""
    checked = 0
    for document in documents(overlay):
        if not document["apiVersion"].startswith("tfquiver.dev/") and document["kind"] != "KubeSchedulerConfiguration":
            kubernetes_validate.validate(document, version, strict=True)
            checked += 1
    assert checked > 10


def test_the_check_finds_mistakes() -> None:
    broken = next(document for document in documents("minimal") if document["kind"] == "DaemonSet")
    spec = pod_spec(broken)
    assert spec is not None
    spec["containers"][0]["livenessProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, SCHEMAS[-1], strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_command_line_is_one_of_ours(overlay: str) -> None:
    """Each server parses its own, every probe and every command too."""
    seen = set()
    for _, _, container in containers(overlay):
        program, *arguments = command_of(container)
        seen.add(program)
        if program == "tfquiver":
            parser().parse_args(arguments)
        else:
            server = program.removeprefix("tfquiver-").removeprefix("scheduler-")
            command = [sys.executable, "-m", f"tfquiver.service.{server}.main", *arguments, "--only_check_args"]
            done = warm.run(command, capture_output=True, text=True, timeout=60)
            assert (done.returncode, done.stdout) == (0, ""), done.stderr
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            probe = container.get(kind, {})
            if "exec" in probe:
                program, *arguments = probe["exec"]["command"]
                assert program == "tfquiver"
                parser().parse_args(arguments)
    servers = ("coordinator", "node", "dispatcher", "worker", "operator")
    assert {f"tfquiver-{server}" for server in servers} == seen


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_ports_that_are_probed_and_served_are_those_that_are_listened_on(overlay: str) -> None:
    for name, _, container in containers(overlay):
        words = " ".join(command_of(container))
        ports = {port["containerPort"] for port in container.get("ports", [])}
        for port in ports:
            assert re.search(rf"(port=|metrics_address=0\.0\.0\.0:){port}\b", words), (name, port)
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            for how in ("grpc", "tcpSocket", "httpGet"):
                if asked := container.get(kind, {}).get(how):
                    assert asked["port"] in ports, (name, kind)
            assert container.get(kind), f"{name}: no {kind}"
    by_component: dict[str, set[str]] = {}
    for document in documents(overlay):
        if (spec := pod_spec(document)) is not None:
            labels = document["spec"]["template"]["metadata"]["labels"]
            named = {port["name"] for container in spec["containers"] for port in container.get("ports", [])}
            by_component[labels["app.kubernetes.io/component"]] = named
    for document in documents(overlay):
        if document["kind"] == "Service":
            component = document["spec"]["selector"]["app.kubernetes.io/component"]
            assert {port["targetPort"] for port in document["spec"]["ports"]} <= by_component[component]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_prometheus_finds_every_server_and_is_let_in(overlay: str) -> None:
    scraped = set()
    for document in documents(overlay):
        if (spec := pod_spec(document)) is None:
            continue
        told = document["spec"]["template"]["metadata"].get("annotations", {})
        for container in spec["containers"]:
            for port in container.get("ports", []):
                if port["name"] == "metrics":
                    assert told["prometheus.io/scrape"] == "true" and told["prometheus.io/path"] == "/metrics"
                    assert told["prometheus.io/port"] == str(port["containerPort"])
                    scraped.add(port["containerPort"])
    assert len(scraped) == 4
    (policy,) = (one for one in documents(overlay) if one["metadata"]["name"] == "tfquiver-metrics")
    assert {port["port"] for port in policy["spec"]["ingress"][0]["ports"]} == scraped


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nothing_runs_as_root_or_may_become_it(overlay: str) -> None:
    """But for the one that gives the node its directory, and that may do nothing else."""
    for name, spec, container in containers(overlay, inits=True):
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False and own["readOnlyRootFilesystem"] is True, name
        assert own["capabilities"]["drop"] == ["ALL"]
        if container["name"] == "cache-directory":
            assert own["capabilities"]["add"] == ["CHOWN"]
            assert container["command"] == ["chown", f"{USER}:{USER}", "/var/cache/tfquiver"]
        else:
            assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] == USER
            assert "add" not in own["capabilities"] and not own.get("runAsUser")
        assert container["resources"]["requests"] and container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_there_is_time_to_drain(overlay: str) -> None:
    """The node's --drain_s, and five seconds, are less than Kubernetes waits before it kills."""
    from tfquiver.service.node import main

    helped = warm.run([sys.executable, "-m", main.__name__, "--help"], capture_output=True, text=True, timeout=60)
    default = re.search(r"--drain_s=([0-9.]+)", helped.stdout)
    assert default
    (spec,) = (spec for name, spec, _ in containers(overlay) if name == "tfquiver-node")
    assert float(default[1]) + 5 <= spec["terminationGracePeriodSeconds"]


def test_who_may_call_is_said_in_every_overlay() -> None:
    for overlay in OVERLAYS:
        for name, _, container in containers(overlay):
            words = command_of(container)
            if name in ("tfquiver-coordinator", "tfquiver-node", "tfquiver-dispatcher"):
                open_to_all = "--allow_unauthenticated" in words
                shown = any(re.match(r"--(tokens_file|auth_token_file)=/etc/", word) for word in words)
                assert (open_to_all, shown) == ((True, False) if overlay == "minimal" else (False, True)), name
    assert not [document for overlay in OVERLAYS for document in documents(overlay) if document["kind"] == "Secret"]


def test_mounts_have_volumes_and_images_are_those_of_the_dockerfile() -> None:
    targets = re.findall(r"^FROM \S+ AS (\S+)$", (CONFIGS / "Dockerfile").read_text(), re.MULTILINE)
    for overlay in OVERLAYS:
        for document in documents(overlay):
            if (spec := pod_spec(document)) is None:
                continue
            volumes = {volume["name"] for volume in spec.get("volumes", [])}
            volumes |= {claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", [])}
            for container in [*spec.get("initContainers", []), *spec["containers"]]:
                assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes
                image, _, tag = container["image"].partition(":")
                assert image in targets and tag == VERSION


def test_a_wrong_overlay_is_refused(tmp_path: Any) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [missing.yaml]\n")
    assert kubectl("kustomize", str(tmp_path)).returncode != 0


def test_the_scheduler_asks_where_the_extender_listens() -> None:
    done = kubectl("kustomize", str(CONFIGS / "scheduler"))
    assert done.returncode == 0, done.stderr
    found = {document["kind"]: document for document in yaml.safe_load_all(done.stdout)}
    for document in found.values():
        kubernetes_validate.validate(document, SCHEMAS[-1], strict=True)
    (configuration,) = found["ConfigMap"]["data"].values()
    (extender,) = yaml.safe_load(configuration)["extenders"]
    spec = pod_spec(found["Deployment"])
    assert spec is not None
    program, *arguments = command_of(spec["containers"][1])
    assert program == "tfquiver-scheduler-extender"
    command = [sys.executable, "-m", "tfquiver.service.extender.main", *arguments, "--only_check_args"]
    checked = warm.run(command, capture_output=True, text=True, timeout=60)
    assert (checked.returncode, checked.stdout) == (0, ""), checked.stderr
    assert f"--port={extender['urlPrefix'].rpartition(':')[2]}" in arguments
    routes = {route.resource.canonical for route in server.application(_nobody_knows).router.routes() if route.resource}
    assert {f"/{extender['filterVerb']}", f"/{extender['prioritizeVerb']}", "/healthz"} <= routes
    assert extender["ignorable"], "no pod waits for it"


async def _nobody_knows(asked: object) -> dict[str, float]:
    return {}
