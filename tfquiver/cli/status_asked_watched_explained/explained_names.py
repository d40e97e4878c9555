"""The names that `tfquiver explain` takes, and by which people know jobs without one."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tfquiver import errors, plain_text
from tfquiver.cli import calls
from tfquiver.cli.dataset_commands import names as named_datasets
from tfquiver.cli.status_tables_and_warnings import names as dataset_names
from tfquiver.cli.status_tables_and_warnings import words
from tfquiver.grpc_plumbing import pages
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, named_datasets_pb2_grpc

_UNNAMED = re.compile(r"(?<![\w./-])([A-Za-z0-9][A-Za-z0-9._-]*/)?job-[0-9a-f]{12}\b")  # with its owner, or without


def known(stub: Any, token: str, whom: str) -> dict[str, list[str]]:
    """`jobs` and `datasets` of which something may be decided, the newest first. Raises the typed error."""
    sessions = calls.ask(stub.ListSessions, coordinator_pb2.ListSessionsRequest(), token, whom).sessions
    datasets = calls.ask(stub.ListDatasets, coordinator_pb2.ListDatasetsRequest(with_settings=True), token, whom)
    return names([calls.plain(one) for one in sessions], calls.settings(stub, datasets, token, whom))


def names(sessions: Sequence[Mapping[str, Any]], datasets: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """`datasets` as `calls.settings` gives them: nothing is decided of those that nobody has read lately or set."""
    read = {one["digest_id"] for one in sessions}
    called = dataset_names.called(datasets)
    decided = [
        called[one["digest_id"]] for one in datasets if one["digest_id"] in read or one["cache"]["mode"] != "unset"
    ]
    return {"jobs": list(dict.fromkeys(map(words.job, sessions))), "datasets": list(dict.fromkeys(decided))}


def meant(name: str, sessions: Sequence[Mapping[str, Any]]) -> set[str]:
    """Jobs that the coordinator knows by other names than this."""
    return {
        one["job"]
        for one in sessions
        if one["job"] != name
        and (words.job(one) == name or any(called.endswith(f"/{name}") for called in (one["job"], words.job(one))))
    }


def shown(text: str, stub: Any, token: str, whom: str, is_json: bool = False) -> str:
    """`text` with jobs without a name called what `tfquiver status` calls them. `is_json`: it is, and stays so. Raises
    the typed error."""
    if not _UNNAMED.search(text):
        return text
    sessions = pages.sessions(
        lambda page: calls.ask(stub.ListSessions, page, token, whom), coordinator_pb2.ListSessionsRequest()
    )
    return as_shown(text, [{"job": one.job, "session_key": one.session_key} for one in sessions], is_json)


def as_shown(text: str, sessions: Iterable[Mapping[str, Any]], is_json: bool = False) -> str:
    names = {one["job"]: words.job(one) for one in sessions}
    if is_json:  # programs are called whatever somebody likes
        names = {job: json.dumps(name)[1:-1] for job, name in names.items()}
    return _UNNAMED.sub(lambda found: names.get(found[0], found[0]), text)


@contextmanager
def in_refusals(arguments: argparse.Namespace) -> Iterator[None]:
    """A refusal inside names jobs as `tfquiver status` does."""
    try:
        yield
    except errors.TfquiverError as error:
        if error.code is not errors.InUseError.code:
            raise
        said = str(error)
        with suppress(errors.TfquiverError), calls.coordinator(arguments) as (stub, token, whom):
            said = shown(said, stub, token, whom)
        raise errors.InUseError(said) from error


def unread(stub: Any, name: str, token: str, whom: str) -> dict[str, Any] | None:
    """What is told of a data set that the coordinator has, and of which nothing is decided. None: it has none."""
    datasets = calls.ask(stub.ListDatasets, coordinator_pb2.ListDatasetsRequest(), token, whom).datasets
    digits = name.lower() if named_datasets.DIGITS.fullmatch(name) else None
    there = [one for one in datasets if name == one.name] or [
        one for one in datasets if digits and one.digest_id.hex().startswith(digits)
    ]
    return {"kind": "dataset", "name": there[0].name or name, "decided": False} if there else None


def first_used_as(channel: Any, name: str, token: str, whom: str) -> str:
    """How plans call the data set that somebody has given this name: as whoever used its content first. Empty: there is
    none. Raises the typed error."""

    def ask(method: Any, request: Any) -> Any:
        return calls.ask(method, request, token, whom)

    named = named_datasets.find(ask, named_datasets_pb2_grpc.NamedDatasetsStub(channel), name, resident=False)
    if named is None or not named.HasField("dataset"):
        return ""
    stub, its = coordinator_pb2_grpc.CoordinatorStub(channel), named.dataset.digest_id
    datasets = ask(stub.ListDatasets, coordinator_pb2.ListDatasetsRequest()).datasets
    return next((one.name for one in datasets if one.digest_id == its and one.name != name), "")


def nothing(name: str) -> str:
    return (
        f"data set {plain_text.plain(name)}: nobody reads it now, and nothing is decided about it; "
        f"`tfquiver dataset show {plain_text.for_shell(name)}` says how it is cached"
    )


def lines(told: Mapping[str, Sequence[str]]) -> list[str]:
    if not any(told.values()):
        return ["no job reads now, or has in the last hour, and nobody has set a data set's cache: nothing is decided"]
    said = [
        f"{what}: {', '.join(map(plain_text.plain, told[key]))}"
        for key, what in (("jobs", "jobs"), ("datasets", "data sets"))
        if told[key]
    ]
    several = " (of those with digits in brackets: these)" * any(map(dataset_names.has_digits, told["datasets"]))
    return [*said, f"`tfquiver explain NAME`{several} says why one has what it has"]
