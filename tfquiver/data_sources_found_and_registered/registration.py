"""Makes a data set known to the coordinator, whoever asks first: found by its listing, or scanned once by a node."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import grpc

from tfquiver import errors
from tfquiver.digests.file_entry import FileEntry
from tfquiver.grpc_plumbing import rpc
from tfquiver.listing.listing_terms import ListingTerms
from tfquiver.proto.tfquiver.v1 import coordinator_pb2, coordinator_pb2_grpc, types_pb2
from tfquiver.server_reachability.patient_calls import until_answered
from tfquiver.sizes_durations_amounts.amounts import many
from tfquiver.users_arguments_checked.option_groups import Progress

if TYPE_CHECKING:
    from tfquiver.digests.digest import Digest
    from tfquiver.messages_and_binary_formats.record_weights import RecordWeights

T = TypeVar("T")
CALL_S = 10.0
_PART_BYTES = 1 << 20
_PUTS = 2
_SLOWEST_BYTES_PER_S = 1 << 20
_PAUSE_S = 0.1
_NAMED_WAIT_MS = 1000


class Registrar:
    """Calls on one coordinator, and on the node that scans. Blocking; use as a context manager.

    What few calls need is imported by these: a data set that is known is to be there at once.

    Args:
      coordinator: host:port or unix:/path.
      control: address of the node that should scan; None: one of those the coordinator knows.
      token: the cluster's; "" for none.
      deadline_s: how long servers that do not answer are asked again before UnavailableError.
    """

    def __init__(self, coordinator: str, control: str | None, token: str, deadline_s: float) -> None:
        self._address = coordinator
        self._control = control
        self._metadata = tuple(rpc.metadata(token))
        self._deadline_s = deadline_s
        self._channel = rpc.channel(coordinator)
        self._coordinator = coordinator_pb2_grpc.CoordinatorStub(self._channel)

    def __enter__(self) -> Registrar:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    @property
    def address(self) -> str:
        """Of the coordinator."""
        return self._address

    def files(
        self, files: Sequence[FileEntry], terms: ListingTerms, name: str, progress: Progress | None, client_id: str = ""
    ) -> types_pb2.Dataset:
        """The data set of these files, cut this way; scanned now when nobody has done so before.

        `client_id`: of store_access.py, which told the node with what credentials to read; "": with its own.

        Raises:
          StaleDigestError, DataLossError, NotFoundError, PermissionError_: of the scan; each names the file.
          UnavailableError: coordinator, node or store cannot be reached within the deadline.
        """
        key = terms.key(files)
        found = self.find(coordinator_pb2.FindDatasetRequest(listing_key=key))
        if found is not None:
            return found
        from tfquiver.data_sources_found_and_registered import scans  # not for data sets that are known

        control = self._control or scans.scanning_node(key, self._nodes())
        if not control:
            raise errors.UnavailableError(
                f"the coordinator at {self._address} knows no node that caches; start a tfquiver-node with a --quota"
            )
        header = scans.header(name, key, terms, client_id)
        scanned = scans.scan(control, header, files, progress, self._metadata, self._deadline_s)
        # A node has registered it; who shows the listing that it was scanned from owns it.
        return self.find(coordinator_pb2.FindDatasetRequest(listing_key=key)) or scanned

    def digest(self, path: Path, terms: ListingTerms | None = None) -> types_pb2.Dataset:
        """The data set of a digest file, registered if it is not yet. Raises CorruptDigestError, UnavailableError.

        `terms`: what it was built with; it is then found by its files, too, and nobody scans them any more.
        """
        from tfquiver.digests.digest import Digest

        digest = Digest.open(path)
        key = terms.key_of(digest) if terms else b""
        request = coordinator_pb2.FindDatasetRequest
        found = self.find(request(listing_key=key) if key else request(digest_id=digest.digest_id))
        return found or self.register(digest, path.read_bytes(), str(path), terms)

    def register(
        self, digest: Digest, data: bytes, what: str, terms: ListingTerms | None = None, name: str = ""
    ) -> types_pb2.Dataset:
        """The data set of a digest, whose bytes `data` are, which the coordinator does not know. `terms`: as `digest`.

        `what`: is registered, for errors. `name`: "": the digest's. Raises UnavailableError, PermissionError_.
        """
        key = terms.key_of(digest) if terms else b""

        def parts() -> Iterator[coordinator_pb2.RegisterDatasetRequest]:
            first = coordinator_pb2.RegisterDatasetRequest(name=name or digest.name, size_bytes=len(data))
            if terms:
                first.listing_key = key
                first.terms.CopyFrom(terms.message())
            yield first  # alone: where there is no room for the rest just now nothing of that is sent
            for at in range(0, len(data), _PART_BYTES):
                yield coordinator_pb2.RegisterDatasetRequest(part=data[at : at + _PART_BYTES])

        return self._retry(
            lambda: self._coordinator.RegisterDataset.future(
                parts(), metadata=self._metadata, timeout=self._deadline_s
            ),
            f"registering {what} with the coordinator at {self._address}",
        )

    def find(self, request: coordinator_pb2.FindDatasetRequest) -> types_pb2.Dataset | None:
        """None when the coordinator does not know it."""
        try:
            return self._retry(
                lambda: self._coordinator.FindDataset.future(request, metadata=self._metadata, timeout=CALL_S),
                f"asking the coordinator at {self._address}",
            )
        except errors.NotFoundError:
            return None

    def was_removed(self, digest_id: bytes) -> bool:
        """Somebody has deleted it, or it was an old version, and it was not registered again. Raises PermissionError_:
        a job's token may not ask."""
        request = coordinator_pb2.RemovedDatasetsRequest(digest_ids=[digest_id])
        reply = self._retry(
            lambda: self._coordinator.RemovedDatasets.future(request, metadata=self._metadata, timeout=CALL_S),
            f"asking the coordinator at {self._address}",
        )
        return bool(reply.digest_ids)

    def named(self, name: str, progress: Progress | None) -> types_pb2.Dataset:
        """The newest version of a data set that has a name; waited for while a node scans the first one.

        Raises NotFoundError (none is called so: names near ones), InUseError (it is being deleted, or could not be
        scanned), UnavailableError.
        """
        from tfquiver.data_sources_found_and_registered import named
        from tfquiver.proto.tfquiver.v1 import named_datasets_pb2, named_datasets_pb2_grpc

        stub = named_datasets_pb2_grpc.NamedDatasetsStub(self._channel)
        seen = 0
        while True:
            request = named_datasets_pb2.GetNamedDatasetRequest(name=name, seen=seen, wait_ms=_NAMED_WAIT_MS)
            found = self._retry(
                functools.partial(stub.Get.future, request, metadata=self._metadata, timeout=CALL_S),
                f"asking the coordinator at {self._address} for data set {name}",
            )
            if (version := named.version_of(found, progress)) is not None:
                return version
            seen = found.seen

    def check_member(self, node_id: str, where: str) -> None:
        """Waits until the node, which runs in `where`, is one of this coordinator's.

        Raises InvalidArgumentError when it still is none at the deadline: it reads for another cluster.
        """
        give_up_at = time.monotonic() + self._deadline_s
        while node_id not in {node.node_id for node in self._nodes()}:
            if time.monotonic() > give_up_at:
                raise errors.InvalidArgumentError(
                    f"service={self._address!r}: the node of cache_dir={where!r} belongs to another coordinator; start "
                    f"it with --coordinator={self._address}, or name its own"
                )
            time.sleep(_PAUSE_S)

    def node_quota_bytes(self) -> int:
        """Of the node that scans. Raises UnavailableError."""
        from tfquiver.proto.tfquiver.v1 import node_pb2, node_pb2_grpc

        assert self._control is not None
        with rpc.channel(self._control) as channel:
            stub = node_pb2_grpc.NodeStub(channel)
            reply = self._retry(
                lambda: stub.Status.future(node_pb2.StatusRequest(), metadata=self._metadata, timeout=CALL_S),
                f"asking the node at {self._control}",
                self._control,
            )
        return int(reply.node.quota_bytes)

    def claim(self, session_key: str, digest_id: bytes) -> None:
        """Sessions of this key are those of the token's name: nodes open them for whoever has the key."""
        request = coordinator_pb2.ClaimSessionRequest(session_key=session_key, digest_id=digest_id)
        self._retry(
            lambda: self._coordinator.ClaimSession.future(request, metadata=self._metadata, timeout=CALL_S),
            f"claiming a session at the coordinator at {self._address}",
        )

    def ask_sampling(
        self, request: coordinator_pb2.AskSamplingRequest, weights: RecordWeights | None = None
    ) -> coordinator_pb2.AskSamplingReply:
        """The epochs of a session key are drawn by a scheme of sampling, by these weights of records, if any. Raises
        InvalidArgumentError, DeadlineError."""
        if weights is None:
            return self._ask_sampling(request)
        request.weights_id = weights.weights_id
        for _ in range(_PUTS):  # what others put may have taken its room
            with contextlib.suppress(errors.NotFoundError):
                return self._ask_sampling(request)
            self._put(weights, request.digest_id)
        return self._ask_sampling(request)

    def _ask_sampling(self, request: coordinator_pb2.AskSamplingRequest) -> coordinator_pb2.AskSamplingReply:
        return self._retry(
            lambda: self._coordinator.AskSampling.future(request, metadata=self._metadata, timeout=CALL_S),
            f"asking the coordinator at {self._address} for sampling scheme {request.scheme}",
        )

    def _put(self, weights: RecordWeights, digest_id: bytes) -> None:
        from tfquiver.messages_and_binary_formats.record_weights import (
            HEADER_BYTES,  # only who has weights needs NumPy
        )

        data = memoryview(weights.to_bytes())

        def parts() -> Iterator[coordinator_pb2.PutWeightsRequest]:
            # It says what comes: where another one sends the same, no more is asked for.
            yield coordinator_pb2.PutWeightsRequest(part=bytes(data[:HEADER_BYTES]), digest_id=digest_id)
            for at in range(HEADER_BYTES, len(data), _PART_BYTES):
                yield coordinator_pb2.PutWeightsRequest(part=bytes(data[at : at + _PART_BYTES]))

        self._retry(
            lambda: self._coordinator.PutWeights.future(
                parts(), metadata=self._metadata, timeout=self._deadline_s + len(data) / _SLOWEST_BYTES_PER_S
            ),
            f"giving the coordinator at {self._address} the weights of {many(len(weights.values), 'record')}",
        )

    def resume(self, request: coordinator_pb2.ResumeRequest) -> coordinator_pb2.ResumeReply:
        return self._retry(
            lambda: self._coordinator.Resume.future(request, metadata=self._metadata, timeout=CALL_S),
            f"asking the coordinator at {self._address} where job {request.job!r} was",
        )

    def position(self, session_key: str) -> coordinator_pb2.GetPositionReply | None:
        """None when nothing has been read yet."""
        request = coordinator_pb2.GetPositionRequest(session_key=session_key)
        try:
            return self._retry(
                lambda: self._coordinator.GetPosition.future(request, metadata=self._metadata, timeout=CALL_S),
                f"asking the coordinator at {self._address}",
            )
        except errors.NotFoundError:
            return None

    def sessions(self, session_key: str, most: int) -> int:
        """How many there are of this key, up to `most`."""
        request = coordinator_pb2.ListSessionsRequest(session_key=session_key, limit=most, count_only=True)
        reply = self._retry(
            lambda: self._coordinator.ListSessions.future(request, metadata=self._metadata, timeout=CALL_S),
            f"asking the coordinator at {self._address}",
        )
        return reply.count or len(reply.sessions)

    def _nodes(self) -> Sequence[types_pb2.NodeInfo]:
        reply = self._retry(
            lambda: self._coordinator.ListNodes.future(
                coordinator_pb2.ListNodesRequest(), metadata=self._metadata, timeout=CALL_S
            ),
            f"asking the coordinator at {self._address}",
        )
        return reply.nodes

    def _retry(self, start: Callable[[], grpc.Future[T]], what: str, address: str = "") -> T:
        """`address`: of whom it asks; "": of the coordinator."""
        return until_answered(start, what, address or self._address, self._deadline_s)
