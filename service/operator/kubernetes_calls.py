"""The few calls of Kubernetes' API that the operator makes itself; kopf lists, watches and patches."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Mapping
from typing import Any

import aiohttp
import kopf

from tfquiver import errors
from tfquiver.plain_text import plain

_CALL_S = 20.0
_MOST_NODES = 10_000
_KNOWN_S = 10.0  # machines, with their labels: a thousand jobs that begin together are placed by one list of them
_PAGE = 500


class KubernetesCalls:
    """On one loop. Every method raises UnavailableError, PermissionError_ or InvalidArgumentError."""

    def __init__(self) -> None:
        self._connection: kopf.ConnectionInfo | None = None
        self._session: aiohttp.ClientSession | None = None
        self._listing = asyncio.Lock()
        self._machines: dict[str, tuple[float, dict[str, dict[str, str]]]] = {}  # until when, by selector

    def use(self, connection: kopf.ConnectionInfo) -> None:
        """As kopf has logged in; again whenever it does so anew."""
        self._connection = connection

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str) -> dict[str, Any] | None:
        """None: it is not there."""
        status, body = await self._ask("GET", path)
        return None if status == 404 else body

    async def make_job(self, namespace: str, manifest: Mapping[str, Any]) -> bool:
        """False: one of that name is there already."""
        path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        status, said = await self._ask("POST", path, manifest)
        if status == 404:
            raise errors.UnavailableError(f"Kubernetes, POST {path}: {plain(str(said.get('message', '')), 500)}")
        return status != 409

    async def job(self, namespace: str, name: str) -> dict[str, Any] | None:
        return await self.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")

    async def forget_job_after(self, namespace: str, name: str, seconds: int) -> None:
        """Kubernetes deletes a Job so long after its end. Harmless when it is gone."""
        patch = {"spec": {"ttlSecondsAfterFinished": seconds}}
        await self._ask("PATCH", f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}", patch)

    async def machines(self, selector: str) -> dict[str, dict[str, str]]:
        """Nodes of Kubernetes that have a label: name -> labels; as they were within the last seconds."""
        async with self._listing:
            until_s, found = self._machines.get(selector, (0.0, {}))
            if time.monotonic() >= until_s:
                found = await self._listed(selector)
                self._machines = {selector: (time.monotonic() + _KNOWN_S, found)}
            return found

    async def _listed(self, selector: str) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        more = ""
        while len(found) < _MOST_NODES:
            page = await self.get(f"/api/v1/nodes?labelSelector={selector}&limit={_PAGE}&continue={more}") or {}
            for one in page.get("items", []):
                found[one["metadata"]["name"]] = dict(one["metadata"].get("labels") or {})
            if not (more := page.get("metadata", {}).get("continue", "")):
                break
        return found

    async def _ask(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """The answer's status and body; other statuses than 2xx, 404 and 409 are raised."""
        connection = self._connection
        if connection is None:
            raise errors.UnavailableError("the operator has not logged in to Kubernetes yet")
        headers = {"Accept": "application/json"}
        if connection.token:
            headers["Authorization"] = f"Bearer {connection.token}"
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_CALL_S))
        url = connection.server.rstrip("/") + path
        try:
            async with self._session.request(
                method, url, json=body, headers=headers, ssl=_verified(connection)
            ) as answer:
                said = await answer.json(content_type=None)
        except (TimeoutError, aiohttp.ClientError, ValueError) as error:
            raise errors.UnavailableError(f"Kubernetes, {method} {path}: {error}") from error
        if not isinstance(said, dict):
            raise errors.UnavailableError(f"Kubernetes, {method} {path}: the answer is not an object")
        if answer.status < 300 or answer.status in (404, 409):
            return answer.status, said
        message = f"Kubernetes, {method} {path}: {answer.status} {plain(str(said.get('message', '')), 500)}"
        if answer.status in (401, 403):
            raise errors.PermissionError_(message)
        raise errors.InvalidArgumentError(message) if answer.status in (400, 422) else errors.UnavailableError(message)


def _verified(connection: kopf.ConnectionInfo) -> ssl.SSLContext | bool:
    if connection.insecure:
        return False
    if not (connection.ca_path or connection.certificate_path):
        return True
    context = ssl.create_default_context(cafile=connection.ca_path)
    if connection.certificate_path:
        context.load_cert_chain(connection.certificate_path, connection.private_key_path)
    return context
