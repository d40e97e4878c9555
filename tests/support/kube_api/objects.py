"""The objects of one resource, and what has happened to them. No HTTP: errors are statuses, as the API says them."""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Callable
from typing import Any

import jsonschema

from tests.support.kube_api.resources import Resource

Object = dict[str, Any]
Key = tuple[str, str]  # namespace, name
_MOST_ANNOTATIONS_BYTES = 256 << 10  # of one object; apimachinery's TotalAnnotationSizeLimitB


class ApiError(Exception):
    """A Status with `code`."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason

    def status(self) -> Object:
        return {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": str(self),
            "reason": self.reason, "code": self.code,
        }  # fmt: skip


class Objects:
    """Args:
    next_version: of the whole server, as in etcd.
    changed: called after each change.
    """

    def __init__(self, resource: Resource, next_version: Callable[[], int], changed: Callable[[], None]) -> None:
        self.resource, self._next_version, self._changed = resource, next_version, changed
        self.by_key: dict[Key, Object] = {}
        self.history: list[tuple[int, str, Object]] = []  # version, ADDED | MODIFIED | DELETED, the object then
        self.compacted = 0  # watches from before are answered 410

    def get(self, key: Key) -> Object:
        if key not in self.by_key:
            raise ApiError(404, "NotFound", f"{self.resource.plural} {key[1]!r} not found")
        return self.by_key[key]

    def create(self, namespace: str, given: Object) -> Object:
        made = copy.deepcopy(given)
        meta = made.setdefault("metadata", {})
        if "generateName" in meta and "name" not in meta:
            meta["name"] = meta["generateName"] + uuid.uuid4().hex[:5]
        if not meta.get("name"):
            raise ApiError(422, "Invalid", "metadata.name: Required value")
        key = (namespace, meta["name"])
        if key in self.by_key:
            raise ApiError(409, "AlreadyExists", f"{self.resource.plural} {key[1]!r} already exists")
        made.update(apiVersion=self.resource.api_version, kind=self.resource.kind)
        if namespace:
            meta["namespace"] = namespace
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        meta.update(uid=str(uuid.uuid4()), creationTimestamp=now, generation=1)
        if self.resource.has_status:
            made.pop("status", None)
        self._check(made)
        self._note("ADDED", key, made)
        return made

    def patch(self, key: Key, change: Callable[[Object], Object], status: bool) -> Object:
        """`change`: what is there -> what is to be there. `status`: by way of the subresource."""
        before = self.get(key)
        after = change(copy.deepcopy(before))
        asked = after.get("metadata", {}).get("resourceVersion")
        if asked and asked != before["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", f"{key[1]}: the object has been modified; apply your changes to the latest")
        if status:
            after = {**copy.deepcopy(before), "status": after.get("status", {})}
        elif self.resource.has_status:
            after.pop("status", None)
            if "status" in before:
                after["status"] = before["status"]
        kept = {name: before["metadata"].get(name) for name in ("uid", "creationTimestamp", "generation", "name")}
        after["metadata"].update({name: value for name, value in kept.items() if value is not None})
        if after.get("spec") != before.get("spec"):
            after["metadata"]["generation"] = before["metadata"]["generation"] + 1
        self._check(after)
        if after == before:
            return before
        if after["metadata"].get("deletionTimestamp") and not after["metadata"].get("finalizers"):
            self._note("DELETED", key, after)
        else:
            self._note("MODIFIED", key, after)
        return after

    def delete(self, key: Key) -> Object:
        before = self.get(key)
        if before["metadata"].get("finalizers"):
            if not before["metadata"].get("deletionTimestamp"):
                marked = copy.deepcopy(before)
                marked["metadata"]["deletionTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                self._note("MODIFIED", key, marked)
            return self.by_key[key]
        self._note("DELETED", key, copy.deepcopy(before))
        return before

    def _note(self, kind: str, key: Key, made: Object) -> None:
        version = self._next_version()
        made["metadata"]["resourceVersion"] = str(version)
        if kind == "DELETED":
            del self.by_key[key]
        else:
            self.by_key[key] = made
        self.history.append((version, kind, copy.deepcopy(made)))
        self._changed()

    def _check(self, made: Object) -> None:
        annotations = made["metadata"].get("annotations") or {}
        if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MOST_ANNOTATIONS_BYTES:
            said = f"metadata.annotations: Too long: may not be more than {_MOST_ANNOTATIONS_BYTES} bytes"
            raise ApiError(422, "Invalid", said)
        if not self.resource.schema:
            return
        try:
            jsonschema.validate(made, self.resource.schema, cls=jsonschema.Draft7Validator)
        except jsonschema.ValidationError as error:
            where = ".".join(map(str, error.absolute_path))
            raise ApiError(
                422, "Invalid", f"{made['metadata']['name']} is invalid: {where}: {error.message}"
            ) from error


def merged(before: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    after = dict(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = merged(after.get(name), value)
    return after


def json_patched(before: Object, operations: list[Object]) -> Object:
    """RFC 6902: add, replace, remove, test."""
    for operation in operations:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        at: Any = before
        try:
            for part in way:
                at = at[int(part)] if isinstance(at, list) else at[part]
            index: Any = (len(at) if last == "-" else int(last)) if isinstance(at, list) else last
            match operation["op"]:
                case "add" if isinstance(at, list):
                    at.insert(index, operation["value"])
                case "add" | "replace":
                    at[index] = operation["value"]
                case "remove":
                    del at[index]
                case "test" if at[index] != operation["value"]:
                    raise ApiError(422, "Invalid", f"{operation['path']}: the test failed")
        except (KeyError, IndexError) as error:
            raise ApiError(422, "Invalid", f"{operation['path']}: not there") from error
    return before
