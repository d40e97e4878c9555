"""Which resources there are: built-in ones, and those of CustomResourceDefinitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Resource:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    has_status: bool = True
    schema: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def discovered(self) -> list[dict[str, Any]]:
        """As in an APIResourceList."""
        verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
        one: dict[str, Any] = {
            "name": self.plural,
            "singularName": self.kind.lower(),
            "namespaced": self.namespaced,
            "kind": self.kind,
            "verbs": verbs,
        }
        status = {**one, "name": f"{self.plural}/status", "singularName": "", "verbs": ["get", "patch", "update"]}
        return [one, status] if self.has_status else [one]


BUILT_IN = (
    Resource("", "v1", "namespaces", "Namespace", namespaced=False),
    Resource("", "v1", "nodes", "Node", namespaced=False),
    Resource("", "v1", "pods", "Pod"),
    Resource("", "v1", "services", "Service"),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", has_status=False),
    Resource("", "v1", "configmaps", "ConfigMap", has_status=False),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    Resource("", "v1", "events", "Event", has_status=False),
    Resource("apps", "v1", "deployments", "Deployment"),
    Resource("apps", "v1", "daemonsets", "DaemonSet"),
    Resource("apps", "v1", "statefulsets", "StatefulSet"),
    Resource("batch", "v1", "jobs", "Job"),
    Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", has_status=False),
    Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False, has_status=False),
    Resource(
        "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False,
        has_status=False,
    ),
    Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", has_status=False),
    Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", has_status=False),
    Resource(
        "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
    ),
)  # fmt: skip


def of_crd(crd: dict[str, Any]) -> Resource:
    """Of its first version."""
    spec = crd["spec"]
    version = spec["versions"][0]
    return Resource(
        spec["group"],
        version["name"],
        spec["names"]["plural"],
        spec["names"]["kind"],
        spec["scope"] == "Namespaced",
        "status" in version.get("subresources", {}),
        version["schema"]["openAPIV3Schema"],
    )
