"""What a coordinator can be told."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CoordinatorOptions:
    node_timeout_s: float = 10.0  # a node not heard of for so long is lost; also a reader's grace after a restart
    session_idle_s: float = 3600.0  # an incomplete session that nobody reads is forgotten after this time
    session_ended_s: float = 3600.0  # an ended session is kept so long for late tickets and for listing
    chunk_timeout_s: float = 120.0  # how long a session that is slow may hold up the rotation of chunks for the others
    policy: str = "benefit"  # decides what nobody has set; "off": nobody does
    store_bytes_per_s: int = 0  # what a person says that the store gives all together; 0: nobody has said
    replan_s: float = 10.0  # between two plans when nothing else asks for one
    # What is prefetched and does not fit: named_dataset_lifecycle/room_for_pins_and_when_full/room.py.
    when_full: str = "partial"
    max_sessions: int = 20_000
    max_digest_bytes: int = 1 << 30

    @property
    def heartbeat_interval_ms(self) -> int:
        """Five signs of life fit into the timeout."""
        return max(20, min(2000, int(self.node_timeout_s * 1000 / 5)))
