"""How far whoever is asked may go for a shard. Pure."""

from __future__ import annotations

ON_DISK = 0  # what stands there
STORE = 1  # and the object store, but no other node
ANYWHERE = 2
