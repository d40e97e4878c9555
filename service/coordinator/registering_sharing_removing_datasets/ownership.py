"""Whose a data set is, who else may read it, and who makes the sessions of a key. Pure; see docs/trust.md.

Whoever registers a data set, or shows the listing it was scanned from, owns it: several names may. Nodes and admins
read everything, and what nobody owns is theirs alone. Decisions are journaled as they are made.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator

from tfquiver import errors
from tfquiver.proto.tfquiver.v1 import commit_log_pb2 as log_pb2
from tfquiver.roles_and_tokens.identity import Identity, Role, check_name

MAX_NAMES = 1000  # that own a data set, and that it is shared with
MAX_CLAIMS = 20_000
_NOBODY = log_pb2.DatasetAccess()


class Ownership:
    def __init__(self, journal: Callable[[log_pb2.CommitRecord], None], max_claims: int = MAX_CLAIMS) -> None:
        """`journal`: is given each decision; the caller makes it durable."""
        self._journal, self._max_claims = journal, max_claims
        self._access: dict[bytes, log_pb2.DatasetAccess] = {}
        self._owned = Counter[str]()  # data sets, by name
        self._claims: dict[str, str] = {}  # session key -> name
        # name -> its keys, and how many claims there had been then; the one claimed last comes last.
        self._keys: dict[str, OrderedDict[str, int]] = {}
        self._claimed_so_far = 0

    # The log.

    def apply(self, record: log_pb2.CommitRecord) -> None:
        """Performs a decision on access or a claim."""
        if record.HasField("dataset_access"):
            self.forget(record.dataset_access.digest_id)
            self._access[record.dataset_access.digest_id] = record.dataset_access
            self._owned.update(set(record.dataset_access.owners))
        elif record.HasField("session_claimed"):
            self._claimed(record.session_claimed.session_key, record.session_claimed.name)

    def still(self) -> Callable[[], Iterator[log_pb2.CommitRecord]]:
        """Gives the records that bring an empty object where this one is now; in any thread, while this one goes on."""
        accesses, claims = (
            list(self._access.values()),
            [(key, name) for name, keys in self._keys.items() for key in keys],
        )

        def records() -> Iterator[log_pb2.CommitRecord]:
            for access in accesses:
                yield log_pb2.CommitRecord(dataset_access=access)
            for key, name in claims:
                yield _claim(key, name)

        return records

    # Data sets.

    def access(self, digest_id: bytes) -> log_pb2.DatasetAccess:
        return self._access.get(digest_id, _NOBODY)

    def owns(self, who: Identity, digest_id: bytes) -> bool:
        return who.role is Role.ADMIN or (bool(who.owner) and who.owner in self.access(digest_id).owners)

    def may_read(self, who: Identity, digest_id: bytes) -> bool:
        access = self.access(digest_id)
        return (
            who.role is not Role.JOB
            or access.everybody
            or who.owner in access.owners
            or who.owner in access.shared_with
        )

    def check_owner(self, who: Identity, digest_id: bytes) -> None:
        """Of one that they may read. Raises PermissionError_."""
        if not self.owns(who, digest_id):
            owners = ", ".join(sorted(self.access(digest_id).owners)[:10]) or "nobody"
            raise errors.PermissionError_(f"digest_id: this data set belongs to {owners}, not to {who}")

    def owned_by(self, name: str) -> int:
        """How many data sets."""
        return self._owned[name]

    def acquire(self, who: Identity, digest_id: bytes) -> None:
        """They have shown what only those can show who can read it. Nodes, and those without a name, own nothing.

        Raises ResourceExhaustedError.
        """
        access = self.access(digest_id)
        if who.owner and who.owner not in access.owners:
            self._set(digest_id, [*access.owners, who.owner], access.shared_with, access.everybody)

    def give_up(self, who: Identity, digest_id: bytes) -> list[str]:
        """Who is left. The caller checks that they own it."""
        access = self.access(digest_id)
        left = [name for name in access.owners if name != who.owner]
        self._set(digest_id, left, access.shared_with, access.everybody)
        return left

    def share(self, digest_id: bytes, names: Iterable[str], everybody: bool) -> None:
        """With these and nobody else. Raises InvalidArgumentError, ResourceExhaustedError."""
        names = sorted(set(names))
        for name in names:
            check_name(name)
        self._set(digest_id, self.access(digest_id).owners, names, everybody)

    def carry_over(self, before: bytes, after: bytes) -> None:
        """What was said of one version of a data set holds of the next. Raises ResourceExhaustedError."""
        was, now = self.access(before), self.access(after)
        owners = list(dict.fromkeys([*now.owners, *was.owners]))
        shared = sorted({*now.shared_with, *was.shared_with})
        if (owners, shared, was.everybody) != (list(now.owners), list(now.shared_with), now.everybody):
            self._set(after, owners, shared, was.everybody or now.everybody)

    def forget(self, digest_id: bytes) -> None:
        """There is no such data set any more."""
        if (access := self._access.pop(digest_id, None)) is not None:
            for name in set(access.owners):
                self._owned[name] -= 1
                if not self._owned[name]:
                    del self._owned[name]

    # Session keys.

    def claim(self, who: Identity, session_key: str) -> None:
        """Sessions of this key, and of keys that begin with it and a colon, are theirs.

        Raises PermissionError_: it is another's.
        """
        key = _claimed_part(session_key)
        if (name := self._claims.get(key)) is None:
            record = _claim(key, who.owner)
            self._journal(record)
            self.apply(record)
        elif name != who.owner and who.role is not Role.ADMIN:
            raise errors.PermissionError_(f"session_key: {session_key} is another's")

    def name_of(self, session_key: str) -> str:
        """Whose sessions those of this key are. Raises PermissionError_ when nobody has claimed it."""
        key = _claimed_part(session_key)
        name = self._claims.get(key)
        if name is None:
            raise errors.PermissionError_(
                f"session_key: nobody has shown a token for {session_key or 'this reader'}: give auth_token_file= to "
                "tfquiver.dataset"
            )
        if self._claimed_so_far - self._keys[name][key] > self._max_claims // 4:
            # In use: claimed again, for the log must drive out the same ones when it is read.
            self._journal(_claim(key, name))
            self._claimed(key, name)
        return name

    def has_claimed(self, who: Identity, session_key: str) -> bool:
        name = self._claims.get(_claimed_part(session_key))
        return who.role is not Role.JOB or (bool(name) and name == who.owner)

    def claimed_by(self, session_key: str) -> str:
        """As `name_of`, for those who only look: nothing is journaled. Empty: nobody."""
        return self._claims.get(_claimed_part(session_key), "")

    def check_claim(self, who: Identity, session_key: str) -> None:
        """Raises PermissionError_."""
        if not self.has_claimed(who, session_key):
            raise errors.PermissionError_(f"session_key: {session_key} is not a key of {who}")

    # Inside.

    def _set(self, digest_id: bytes, owners: Iterable[str], shared_with: Iterable[str], everybody: bool) -> None:
        access = log_pb2.DatasetAccess(
            digest_id=digest_id, owners=owners, shared_with=shared_with, everybody=everybody
        )  # fmt: skip
        if max(len(access.owners), len(access.shared_with)) > MAX_NAMES:
            raise errors.ResourceExhaustedError(f"a data set is of at most {MAX_NAMES} names: share it with everybody")
        record = log_pb2.CommitRecord(dataset_access=access)
        self._journal(record)
        self.apply(record)

    def _claimed(self, key: str, name: str) -> None:
        if (before := self._claims.get(key)) is not None:
            del self._keys[before][key]
        self._claims[key] = name
        self._claimed_so_far += 1
        self._keys.setdefault(name, OrderedDict())[key] = self._claimed_so_far
        while len(self._claims) > self._max_claims:  # nobody drives out the claims of those who have fewer
            most = max(self._keys, key=lambda name: len(self._keys[name]))
            oldest, _ = self._keys[most].popitem(last=False)
            del self._claims[oldest]


def _claimed_part(session_key: str) -> str:
    return session_key.partition(":")[0]


def _claim(session_key: str, name: str) -> log_pb2.CommitRecord:
    return log_pb2.CommitRecord(session_claimed=log_pb2.SessionClaimed(session_key=session_key, name=name))
