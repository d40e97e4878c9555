"""Where the node is that a process of TensorFlow's asks."""

from __future__ import annotations

from tfquiver.node_daemon_and_notes_in_directories.node_endpoint import NodeEndpoint
from tfquiver.ops.compiling_and_loading.told import Told


class NodePlace:
    """Tells the op where the node is, as soon as both are there, and whenever the node is started again."""

    def __init__(self) -> None:
        self._library: Told | None = None
        self._endpoint: NodeEndpoint | None = None

    def found(self, endpoint: NodeEndpoint) -> None:
        self._endpoint = endpoint
        self._tell()

    def loaded(self, library: Told) -> None:
        self._library = library
        self._tell()

    def socket(self) -> str:
        """Once it was found."""
        assert self._endpoint is not None
        return self._endpoint.socket

    def coordinator(self) -> str:
        """The node's; once it was found."""
        assert self._endpoint is not None
        return self._endpoint.coordinator

    def _tell(self) -> None:
        if self._library is not None and self._endpoint is not None:
            self._library.set_endpoint("", self._endpoint.socket)
