"""Who may call what: roles, and the one table of calls that each may make. Pure.

A token stands for an identity: a role and a name. What belongs to whom is decided by name where it is kept
(`service/coordinator/registering_sharing_removing_datasets/ownership.py`); here it is only said which calls a role may
make at all. docs/trust.md says what that comes to.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Protocol

from tfquiver import errors

MAX_NAME = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Role(enum.StrEnum):
    ADMIN = "admin"  # people who run the cluster
    NODE = "node"  # tfquiver-node, -dispatcher, -worker
    JOB = "job"  # trainers, and people who use the cluster


@dataclass(frozen=True, slots=True)
class Identity:
    role: Role
    name: str  # empty: nobody in particular

    def __str__(self) -> str:
        return f"{self.role} {self.name}".strip()

    @property
    def owner(self) -> str:
        """The name under which it can have data sets and sessions; empty: it has none of its own."""
        return "" if self.role is Role.NODE else self.name


# Where no token is asked for, and for whoever shows the one token that all share.
EVERYBODY = Identity(Role.ADMIN, "")

_ADMINS = frozenset({Role.ADMIN})
_NODES = frozenset({Role.ADMIN, Role.NODE})
_JOBS = frozenset({Role.ADMIN, Role.JOB})
_ALL = frozenset(Role)

# A call that is not here is nobody's.
CALLS: dict[str, frozenset[Role]] = {
    "/tfquiver.v1.Coordinator/RegisterDataset": _ALL,
    "/tfquiver.v1.Coordinator/FindDataset": _ALL,
    "/tfquiver.v1.Coordinator/GetDigest": _ALL,
    "/tfquiver.v1.Coordinator/ListDatasets": _ALL,
    "/tfquiver.v1.Coordinator/ShareDataset": _JOBS,
    "/tfquiver.v1.Coordinator/DeleteDataset": _JOBS,
    "/tfquiver.v1.Coordinator/RemovedDatasets": _NODES,
    "/tfquiver.v1.Coordinator/Unclaimed": _NODES,
    "/tfquiver.v1.Coordinator/SetCache": _JOBS,
    "/tfquiver.v1.Coordinator/GetCache": _ALL,
    "/tfquiver.v1.Coordinator/SetPlacement": _JOBS,
    "/tfquiver.v1.Coordinator/GetPlacement": _ALL,
    "/tfquiver.v1.Coordinator/SuggestPlacement": _ALL,
    "/tfquiver.v1.Coordinator/AllocateCacheSize": _JOBS,
    "/tfquiver.v1.Coordinator/AllocateRemoteIO": _ADMINS,
    "/tfquiver.v1.Coordinator/ListRemoteIO": _ALL,
    "/tfquiver.v1.Coordinator/Explain": _ALL,
    "/tfquiver.v1.Coordinator/SetPolicy": _ADMINS,
    "/tfquiver.v1.Coordinator/Heartbeat": _NODES,
    "/tfquiver.v1.Coordinator/Orders": _NODES,
    "/tfquiver.v1.Coordinator/NodeCalls": _NODES,
    "/tfquiver.v1.Coordinator/Missing": _NODES,
    "/tfquiver.v1.Coordinator/Holders": _NODES,
    "/tfquiver.v1.Coordinator/Leave": _NODES,
    "/tfquiver.v1.Coordinator/Forget": _ADMINS,
    "/tfquiver.v1.Coordinator/Identify": _NODES,
    "/tfquiver.v1.Coordinator/ListNodes": _ALL,
    "/tfquiver.v1.Coordinator/ReportDispatcher": _NODES,
    "/tfquiver.v1.Coordinator/ReportWorker": _NODES,
    "/tfquiver.v1.Coordinator/ListDispatchers": _ALL,
    "/tfquiver.v1.Coordinator/Ticket": _NODES,
    "/tfquiver.v1.Coordinator/OpenReader": _NODES,
    "/tfquiver.v1.Coordinator/Lease": _NODES,
    "/tfquiver.v1.Coordinator/Ack": _NODES,
    "/tfquiver.v1.Coordinator/CloseReader": _NODES,
    "/tfquiver.v1.Coordinator/ClaimSession": _JOBS,
    "/tfquiver.v1.Coordinator/AskSampling": _JOBS,
    "/tfquiver.v1.Coordinator/PutWeights": _JOBS,
    "/tfquiver.v1.Coordinator/PickRecords": _NODES,
    "/tfquiver.v1.Coordinator/Resume": _JOBS,
    "/tfquiver.v1.Coordinator/GetPosition": _JOBS,
    "/tfquiver.v1.Coordinator/ReportSteps": _JOBS,
    "/tfquiver.v1.Coordinator/ReportWaiting": _JOBS,
    "/tfquiver.v1.Coordinator/ListSessions": _ALL,
    "/tfquiver.v1.Coordinator/GetPast": _ADMINS,
    "/tfquiver.v1.Coordinator/AwaitChange": _ALL,
    "/tfquiver.v1.NamedDatasets/Create": _JOBS,
    "/tfquiver.v1.NamedDatasets/List": _ALL,
    "/tfquiver.v1.NamedDatasets/Get": _ALL,
    "/tfquiver.v1.NamedDatasets/Prefetch": _JOBS,
    "/tfquiver.v1.NamedDatasets/Pin": _JOBS,
    "/tfquiver.v1.NamedDatasets/Evict": _JOBS,
    "/tfquiver.v1.NamedDatasets/Delete": _JOBS,
    "/tfquiver.v1.NamedDatasets/Refresh": _JOBS,
    "/tfquiver.v1.NamedDatasets/ReportTask": _NODES,
    "/tfquiver.v1.NamedDatasets/ReportStale": _NODES,
    "/tfquiver.v1.DerivedDatasets/Open": _JOBS,
    "/tfquiver.v1.DerivedDatasets/Claim": _JOBS,
    "/tfquiver.v1.DerivedDatasets/Report": _JOBS,
    "/tfquiver.v1.Node/Status": _ALL,
    "/tfquiver.v1.Node/EnsureDataset": _JOBS,
    "/tfquiver.v1.Node/UseStores": _JOBS,
    "/tfquiver.v1.Node/Warm": _JOBS,
    "/tfquiver.v1.Node/PutDerived": _JOBS,
    "/tfquiver.v1.Node/ComputeDerived": _JOBS,
    "/tfquiver.v1.Node/Clear": _ADMINS,
    "/tfquiver.v1.Node/ReachPeers": _ADMINS,
    "/tfquiver.v1.Node/ScanFiles": _NODES,
}
# Of these no token is asked: whoever probes a server has none, and learns only whether it is of use.
HEALTH_CHECK, HEALTH_WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
ANYBODYS = frozenset({HEALTH_CHECK, HEALTH_WATCH})
# Whoever says HELLO on a node's data port.
DATA_PORT = _NODES

# The group of users who read through a node that is not theirs, and is its own coordinator.
READERS = Identity(Role.JOB, "readers")


class Authority(Protocol):
    """Tells who shows a token."""

    async def identify(self, token: str) -> Identity:
        """`token`: empty when none was shown.

        Raises UnauthenticatedError (wrong or missing), UnavailableError (it cannot be told now).
        """
        ...


class Open:
    """Asks nobody for a token."""

    async def identify(self, token: str) -> Identity:
        return EVERYBODY


class Always:
    """Where whoever can connect is known by that alone."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def identify(self, token: str) -> Identity:
        return self._identity


def check_call(identity: Identity, method: str) -> None:
    """`method`: its full name, "/package.Service/Method". Raises PermissionError_."""
    roles = CALLS.get(method, frozenset())
    if identity.role not in roles:
        raise errors.PermissionError_(_refusal(identity, method.rpartition("/")[2], roles))


def check_data_port(identity: Identity) -> None:
    """Raises PermissionError_."""
    if identity.role not in DATA_PORT:
        raise errors.PermissionError_(_refusal(identity, "the data port", DATA_PORT))


def check_name(name: str) -> None:
    """Raises InvalidArgumentError."""
    if len(name) > MAX_NAME or not _NAME.fullmatch(name):
        raise errors.InvalidArgumentError(
            f"{name[:MAX_NAME]!r} is no name: a letter or digit, then letters, digits and . _ -, {MAX_NAME} in all"
        )


def wrong_token(token: str) -> errors.UnauthenticatedError:
    """`token`: as it was shown; empty: none was."""
    if token:
        return errors.UnauthenticatedError(
            "wrong token, none of this cluster's: is the file of auth_token_file= (in commands, --auth_token_file) the "
            "right one?"
        )
    return errors.UnauthenticatedError(
        "no token was shown: give auth_token_file= (in commands, --auth_token_file), or TFQUIVER_AUTH_TOKEN_FILE"
    )


def _refusal(identity: Identity, what: str, roles: frozenset[Role]) -> str:
    its = [f"{'an' if role is Role.ADMIN else 'a'} {role}'s" for role in Role if role in roles]
    wanted = " or ".join(its) or "no"
    return f"{what} is not for {identity}, whose token this is: it takes {wanted} token; see docs/trust.md"
