"""What docs/guide/kubernetes.md shows: its objects are of our schemas, its folders can be built and are there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.kube_api import KubeApi
from tests.support.kubectl import documents, kubectl, needs_kubectl

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "guide" / "kubernetes.md").read_text()
SHOWN = [block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if "kind:" in block]
PLURALS = {"Dataset": "datasets", "TrainingJob": "trainingjobs"}

pytestmark = needs_kubectl


def as_shown_and_with_each_option(block: str) -> Iterator[str]:
    """A line that is a comment with a field in it is an option: the object with it is to be taken, too."""
    yield block
    lines = block.split("\n")
    for number, line in enumerate(lines):
        if re.match(r" +# \w+: ", line):
            yield "\n".join([*lines[:number], line.replace("# ", "", 1), *lines[number + 1 :]])


def crds() -> dict[str, Any]:
    return {one["spec"]["names"]["kind"]: one for one in documents("minimal") if one["kind"].startswith("CustomRes")}


def unknown(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Fields that the schema does not name: Kubernetes would drop them without a word."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, dict):
        for name, inner in value.items():
            known = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if known is None:
                yield f"{path}.{name}"
            elif isinstance(known, dict):
                yield from unknown(inner, known, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from unknown(inner, schema.get("items", {}), f"{path}[]")


def test_both_kinds_are_shown_with_options() -> None:
    assert {yaml.safe_load(block)["kind"] for block in SHOWN} == set(PLURALS)
    assert sum(1 for block in SHOWN for _ in as_shown_and_with_each_option(block)) > 6


@pytest.mark.slow
@pytest.mark.parametrize("text", [text for block in SHOWN for text in as_shown_and_with_each_option(block)])
def test_a_server_would_take_it_and_drop_nothing(text: str) -> None:
    given = yaml.safe_load(text)
    found = crds()
    schema = found[given["kind"]]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert list(unknown(given["spec"], schema["properties"]["spec"], "spec")) == []
    with KubeApi(tuple(found.values())) as api:
        api.create(PLURALS[given["kind"]], given, namespace=given["metadata"]["namespace"])


def test_a_field_that_is_not_there_is_found() -> None:
    schema = crds()["Dataset"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert list(unknown({"prefetch": True, "prefetched": True}, schema, "spec")) == ["spec.prefetched"]


@pytest.mark.slow
def test_its_folders_are_there_and_can_be_built() -> None:
    named = set(re.findall(r"\bconfigs/[\w./-]+\w", PAGE))
    assert len(named) > 3
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
    for folder in set(re.findall(r"kubectl apply -k (\S+)", PAGE)):
        done = kubectl("kustomize", str(ROOT / folder))
        assert done.returncode == 0, done.stderr
