"""What may be asked for when a data set is made, and whether two requests ask for the same. Pure."""

from __future__ import annotations

import posixpath
import re

from tfquiver import errors
from tfquiver.plain_text import shortened
from tfquiver.proto.tfquiver.v1 import named_datasets_pb2 as pb2
from tfquiver.proto.tfquiver.v1 import types_pb2

MAX_NAME = 63
MAX_SOURCES = 1000
MAX_SOURCE_BYTES = 4096
MAX_SOURCES_BYTES = 256 << 10  # of one data set: nodes are told of several at once
MAX_CREDENTIALS_BYTES = 256  # all nodes are told those of all data sets at once
RESERVED = frozenset({"all", "auto", "coop", "cooperative", "full", "lru", "none", "uniform", "unset"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FILE = "file://"
_PATTERN = re.compile(r"[*?[]")
_CREDENTIALS = re.compile(r"(file:/.+|env:[A-Za-z_][A-Za-z0-9_]*|k8s:[a-z0-9][a-z0-9.-]*/[A-Za-z0-9._-]+)")


def check_name(name: str) -> None:
    """Raises InvalidArgumentError."""
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise errors.InvalidArgumentError(
            f"name: {shortened(name)} names no data set: a letter or digit, then letters, digits and . _ -, "
            f"{MAX_NAME} in all"
        )


def check_new_name(name: str) -> None:
    """Of one that is made now: those that there are keep theirs. Raises InvalidArgumentError."""
    if name.lower() in RESERVED:
        raise errors.InvalidArgumentError(
            f"name: {name} is a word of the command line (as in `tfquiver dataset set-cache NAME {name.lower()}`): "
            "choose another one"
        )


def check(spec: pb2.DatasetSpec) -> None:
    """Raises InvalidArgumentError naming the field."""
    check_name(spec.name)
    if not spec.sources and not spec.digest_id:
        raise errors.InvalidArgumentError("sources: none: give --source URI, or --digest FILE")
    if spec.digest_id and len(spec.digest_id) != 32:
        raise errors.InvalidArgumentError(f"digest_id: {len(spec.digest_id)} bytes; it has 32")
    if len(spec.sources) > MAX_SOURCES:
        raise errors.InvalidArgumentError(f"sources: {len(spec.sources)}; at most {MAX_SOURCES}: use globs")
    if (all_bytes := sum(len(source.encode()) for source in spec.sources)) > MAX_SOURCES_BYTES:
        raise errors.InvalidArgumentError(f"sources: {all_bytes} bytes in all; at most {MAX_SOURCES_BYTES}: use globs")
    for at, source in enumerate(spec.sources):
        if not source or len(source.encode()) > MAX_SOURCE_BYTES or "\0" in source:
            raise errors.InvalidArgumentError(f"sources[{at}]: empty, with a zero byte, or longer than 4096 bytes")
        if "://" not in source and not source.startswith("/"):
            raise errors.InvalidArgumentError(
                f"sources[{at}]: {shortened(source)} is neither a URI nor a whole path: nodes have no current directory"
            )
    if spec.format not in types_pb2.DatasetFormat.values():
        raise errors.InvalidArgumentError(f"format: {spec.format} is not known; is this coordinator older?")
    if spec.credentials:
        check_credentials(spec.credentials)


def has_format(dataset: types_pb2.Dataset, format: int) -> bool:
    """Whether it was cut so. Bytes have no records; of no bytes at all nothing can be told."""
    is_bytes = format == types_pb2.DATASET_FORMAT_BYTES
    return not dataset.size_bytes or (not dataset.records) == is_bytes


def check_credentials(reference: str) -> None:
    """Raises InvalidArgumentError, which does not repeat it: it may be a secret that somebody pasted."""
    if len(reference) > MAX_CREDENTIALS_BYTES or not _CREDENTIALS.fullmatch(reference):
        raise errors.InvalidArgumentError(
            "credentials: not a reference: write file:/PATH, env:NAME or k8s:SECRET/KEY, never the secret itself"
        )


def is_same(one: pb2.DatasetSpec, other: pb2.DatasetSpec) -> bool:
    """Whether they ask for the same data set; that it is pinned is said separately later, too."""
    return (
        (one.name, one.credentials) == (other.name, other.credentials)
        and sorted(map(_plain, one.sources)) == sorted(map(_plain, other.sources))
        and one.digest_id == other.digest_id
        and one.placement == other.placement
        and (one.format == other.format or bool(one.digest_id))
    )


def taken(there: pb2.DatasetSpec, asked: pb2.DatasetSpec, failed: bool) -> str:
    """Why a name cannot be had that its owner has given to something else, and what to do."""
    options = (
        ("--credentials", there.credentials == asked.credentials),
        ("--format", there.format == asked.format),
        ("--nodes, --stripe, --rack-local or --replicas", there.placement == asked.placement),
    )
    source = shortened(", ".join(there.sources)) if there.sources else "a digest"
    what = f"a data set of {source}"
    if is_same(_only_source(there), _only_source(asked)):
        what += f", with other {' and '.join(option for option, same in options if not same)}"
    delete = f"tfquiver dataset delete {there.name}"
    if failed:
        return f"name: {there.name} is taken, by {what}, which has failed: delete that one ({delete}), and try again"
    return f"name: {there.name} is taken, by {what}: choose another name, or delete that one ({delete})"


def kept_otherwise(other: str, rule: types_pb2.PlacementRule) -> str:
    """Why content cannot be placed as is asked for: it is that data set's, too, which is kept so."""
    how = [f"on {rule.selector or 'all nodes'}"]
    how += [f"on at most {rule.stripe} of them"] * bool(rule.stripe) + ["rack-local"] * rule.rack_local
    how += [f"{rule.replicas} of each shard"] * (rule.replicas > 1)
    return (
        f"placement: {other} is of the same content and is kept {', '.join(how)}: content is kept in one way, whatever "
        f"it is called. Leave out --nodes, --stripe, --rack-local and --replicas, or change it for both first "
        f"(tfquiver dataset place {other})"
    )


def _only_source(spec: pb2.DatasetSpec) -> pb2.DatasetSpec:
    return pb2.DatasetSpec(sources=spec.sources, digest_id=spec.digest_id)


def _plain(source: str) -> str:
    """Earlier versions kept `..` and `//` in names of local files. Links stay: no disk is looked at here."""
    path = source.removeprefix(_FILE)
    if not path.startswith("/") or _PATTERN.search(path.rpartition("/..")[0]):
        return source
    whole = posixpath.normpath(f"/{path.lstrip('/')}")
    behind = "/" if path.endswith("/") and whole != "/" else ""
    return f"{_FILE if source.startswith(_FILE) else ''}{whole}{behind}"
