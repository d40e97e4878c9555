"""The HTTP side, on a thread of its own."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

import yaml
from aiohttp import web

from tests.support.kube_api.objects import ApiError, Key, Object, Objects, json_patched, merged
from tests.support.kube_api.resources import BUILT_IN, Resource, of_crd

T = TypeVar("T")
_BOOKMARK_S = 0.5
_LATE_S = 30.0


class KubeApi:
    """Serves from `__enter__` on at `url`. The other methods are for the test's thread."""

    def __init__(self, crds: tuple[Object, ...] = (), checks_schemas: bool = True) -> None:
        self._versions = itertools.count(1)
        self._last = 0
        self._objects: dict[tuple[str, str, str], Objects] = {}
        self._loop = asyncio.new_event_loop()
        self._change = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._checks = checks_schemas
        self.url = ""
        self.requests: list[tuple[str, str]] = []  # method, path and query
        for resource in BUILT_IN:
            self._serve(resource)
        for crd in crds:
            self._of("apiextensions.k8s.io", "v1", "customresourcedefinitions").create("", crd)
            self._serve(of_crd(crd))

    def __enter__(self) -> KubeApi:
        self._thread.start()
        self._call(self._start())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._call(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LATE_S)
        self._loop.close()

    # For tests.

    def create(self, plural: str, given: Object, namespace: str = "default") -> Object:
        objects = self._plural(plural)
        return self._now(lambda: objects.create(namespace if objects.resource.namespaced else "", given))

    def get(self, plural: str, name: str, namespace: str = "default") -> Object | None:
        objects = self._plural(plural)
        key = (namespace if objects.resource.namespaced else "", name)
        found: Object | None = self._now(lambda: json.loads(json.dumps(objects.by_key.get(key))))
        return found

    def patch(self, plural: str, name: str, patch: Object, namespace: str = "default", status: bool = False) -> Object:
        return self._now(lambda: self._plural(plural).patch((namespace, name), lambda was: merged(was, patch), status))

    def delete(self, plural: str, name: str, namespace: str = "default") -> None:
        self._now(lambda: self._plural(plural).delete((namespace, name)))

    def all(self, plural: str) -> list[Object]:
        return self._now(lambda: json.loads(json.dumps(list(self._plural(plural).by_key.values()))))

    def history(self, plural: str, name: str) -> list[tuple[str, Object]]:
        """Every change of an object, in order."""
        seen = self._now(lambda: list(self._plural(plural).history))
        return [(kind, then) for _, kind, then in seen if then["metadata"]["name"] == name]

    def compact(self) -> None:
        """Whoever watches, or comes to watch from a version before now, is told 410 Gone."""

        def forget() -> None:
            for objects in self._objects.values():
                objects.compacted = self._next()
            self._wake()

        self._now(forget)

    def kubeconfig(self) -> str:
        named = {"name": "test"}
        return yaml.safe_dump(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "test",
                "clusters": [{**named, "cluster": {"server": self.url}}], "users": [{**named, "user": {}}],
                "contexts": [{**named, "context": {"cluster": "test", "user": "test"}}],
            }
        )  # fmt: skip

    # Inside.

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_LATE_S)

    def _now(self, work: Any) -> Any:
        async def run() -> Any:
            return work()

        return self._call(run())

    def _serve(self, resource: Resource) -> None:
        if not self._checks:
            resource = Resource(**{**resource.__dict__, "schema": {}})
        key = (resource.group, resource.version, resource.plural)
        self._objects[key] = Objects(resource, self._next, self._wake)

    def _next(self) -> int:
        self._last = next(self._versions)
        return self._last

    def _wake(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    def _of(self, group: str, version: str, plural: str) -> Objects:
        if (found := self._objects.get((group, version, plural))) is None:
            raise ApiError(404, "NotFound", f"the server could not find the requested resource {plural}")
        return found

    def _plural(self, plural: str) -> Objects:
        return next(objects for (_, _, name), objects in self._objects.items() if name == plural)

    async def _start(self) -> None:
        app = web.Application(middlewares=[self._answered])
        app.router.add_get("/version", _always({"major": "1", "minor": "32", "gitVersion": "v1.32.0"}))
        app.router.add_get("/api", _always({"kind": "APIVersions", "versions": ["v1"]}))
        app.router.add_get("/apis", self._groups)
        app.router.add_route("*", "/api/{version}{rest:.*}", self._dispatch)
        app.router.add_route("*", "/apis/{group}/{version}{rest:.*}", self._dispatch)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    @web.middleware
    async def _answered(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append((request.method, request.path_qs))
        try:
            response: web.StreamResponse = await handler(request)
        except ApiError as error:
            return web.json_response(error.status(), status=error.code)
        except ConnectionResetError:  # who watched has gone
            return web.Response(status=499)
        return response

    async def _groups(self, request: web.Request) -> web.Response:
        groups = sorted({(group, version) for group, version, _ in self._objects if group})
        listed = [
            {"name": group, "versions": [here], "preferredVersion": here}
            for group, version in groups
            if (here := {"groupVersion": f"{group}/{version}", "version": version})
        ]
        return web.json_response({"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})

    async def _dispatch(self, request: web.Request) -> web.StreamResponse:
        group, version = request.match_info.get("group", ""), request.match_info["version"]
        parts = [part for part in request.match_info["rest"].split("/") if part]
        if not parts:
            return self._discovered(group, version)
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        objects = self._of(group, version, parts[0])
        if len(parts) == 1:
            if request.method == "POST" and request.content_type != "application/json":
                raise ApiError(415, "UnsupportedMediaType", request.content_type)  # protobuf: a real server takes it
            if request.method == "POST":
                return web.json_response(objects.create(namespace, await request.json()), status=201)
            if request.query.get("watch") in ("true", "1"):
                return await self._watch(request, objects, namespace)
            return self._list(request, objects, namespace)
        return await self._one(request, objects, (namespace, parts[1]), parts[2:])

    def _discovered(self, group: str, version: str) -> web.Response:
        here = [
            objects.resource for (its, number, _), objects in self._objects.items() if (its, number) == (group, version)
        ]
        if not here:
            raise ApiError(404, "NotFound", f"no {group}/{version}")
        resources = [one for resource in here for one in resource.discovered()]
        body = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": here[0].api_version}
        return web.json_response({**body, "resources": resources})

    async def _one(self, request: web.Request, objects: Objects, key: Key, sub: list[str]) -> web.Response:
        if request.method == "GET":
            return web.json_response(objects.get(key))
        if request.method == "DELETE":
            return web.json_response(objects.delete(key))
        body = json.loads(await request.text())
        if request.method == "PUT":
            return web.json_response(objects.patch(key, lambda was: body, sub == ["status"]))
        if request.content_type == "application/json-patch+json":
            return web.json_response(objects.patch(key, lambda was: json_patched(was, body), sub == ["status"]))
        if request.content_type == "application/merge-patch+json":
            return web.json_response(objects.patch(key, lambda was: merged(was, body), sub == ["status"]))
        raise ApiError(415, "UnsupportedMediaType", request.content_type)

    def _list(self, request: web.Request, objects: Objects, namespace: str) -> web.Response:
        items = [one for one in objects.by_key.values() if _selected(one, request, namespace)]
        body = {"kind": f"{objects.resource.kind}List", "apiVersion": objects.resource.api_version}
        return web.json_response({**body, "metadata": {"resourceVersion": str(self._last)}, "items": items})

    async def _watch(self, request: web.Request, objects: Objects, namespace: str) -> web.StreamResponse:
        seen = int(request.query.get("resourceVersion") or self._last)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while True:
            change = self._change
            if seen < objects.compacted:
                gone = ApiError(410, "Expired", "too old resource version").status()
                await _line(response, {"type": "ERROR", "object": gone})
                return response
            for version, kind, then in list(objects.history):
                if version > seen and _selected(then, request, namespace):
                    await _line(response, {"type": kind, "object": then})
                seen = max(seen, version)
            try:
                await asyncio.wait_for(change.wait(), _BOOKMARK_S)
            except TimeoutError:
                if request.query.get("allowWatchBookmarks") in ("true", "1"):
                    seen = max(seen, self._last)
                    kind, version = objects.resource.kind, {"resourceVersion": str(seen)}
                    mark = {"kind": kind, "apiVersion": objects.resource.api_version, "metadata": version}
                    await _line(response, {"type": "BOOKMARK", "object": mark})


async def _line(response: web.StreamResponse, event: Object) -> None:
    await response.write(json.dumps(event).encode() + b"\n")


def _always(body: Object) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(body)

    return answer


def _selected(one: Object, request: web.Request, namespace: str) -> bool:
    if namespace and one["metadata"].get("namespace") != namespace:
        return False
    labels = one["metadata"].get("labels", {})
    for term in filter(None, request.query.get("labelSelector", "").split(",")):
        name, equals, value = term.partition("=")
        if name not in labels or (equals and labels[name] != value.lstrip("=")):
            return False
    for term in filter(None, request.query.get("fieldSelector", "").split(",")):
        name, _, value = term.partition("=")
        if name == "metadata.name" and one["metadata"]["name"] != value:
            return False
    return True
