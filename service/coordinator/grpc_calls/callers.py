"""What a caller may see and touch: what all calls begin with."""

from __future__ import annotations

from typing import Protocol

from tfquiver.clock import SystemClock
from tfquiver.proto.tfquiver.v1 import types_pb2
from tfquiver.roles_and_tokens.identity import Authority, Identity
from tfquiver.service.coordinator.coordinator import Coordinator
from tfquiver.service.coordinator.registering_sharing_removing_datasets.first_uses import FirstUses
from tfquiver.service.coordinator.registering_sharing_removing_datasets.visible import Visible


class Tokens(Authority, Protocol):
    named: bool  # whether tokens have names: then sessions are opened for those only who have claimed their key

    def by_hash(self, hash: bytes) -> Identity | None: ...


class Callers:
    def __init__(self, coordinator: Coordinator, tokens: Tokens | None = None) -> None:
        """`tokens`: None: nobody is asked for one."""
        self._coordinator, self._tokens = coordinator, tokens
        self._visible = Visible(coordinator.registry, coordinator.ownership)
        self._first_uses = FirstUses(SystemClock())

    @property
    def _named(self) -> bool:
        return self._tokens is not None and self._tokens.named

    def _owned(self, who: Identity, digest_id: bytes) -> types_pb2.Dataset:
        """Raises NotFoundError, PermissionError_."""
        found = self._visible.find(who, digest_id)
        self._coordinator.ownership.check_owner(who, digest_id)
        return found
